//! The one owner of all state: the event loop, the session, the queue of calls, cancellation, heartbeats, the end.
//! Every message goes straight down from here. Calls run on threads of their own and post their outcome back; one that is
//! alone is looked after here for its first moment.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;

use crate::call::{self, Job, Progress, Started, Stop};
use crate::codes::Code;
use crate::config::{
    Config, HEARTBEAT, MAX_BATCH, MAX_READERS, MAX_REFUSAL, MAX_REPLY, MAX_TOKEN, MAX_WAITING, SHUTDOWN,
};
use crate::envelope::{Envelope, Failure};
use crate::lines::Line;
use crate::reply::{self, Constants};
use crate::revision::{self, Claim, Revision};
use crate::rpc::{self, Id, Incoming, Rejected, Request, RpcError};
use crate::tools::{self, Run};
use crate::transport::{Event, Key, Transport};

/// Serves until stdin ends, a signal comes or the client is gone. Returns the exit status.
pub(crate) fn run(config: Config, transport: Transport) -> u8 {
    let mut server = Server {
        config: Arc::new(config),
        transport,
        session: None,
        constants: Constants::default(),
        calls: BTreeMap::new(),
        waiting: VecDeque::new(),
        batches: BTreeMap::new(),
        quick: None,
        next_key: 0,
        ending: false,
    };
    // A fault of the loop itself must not leave children behind either.
    catch_unwind(AssertUnwindSafe(|| server.serve())).unwrap_or_else(|_| {
        server.shut_down();
        101
    })
}

struct Server {
    config: Arc<Config>,
    transport: Transport,
    /// The revision that the last `initialize` negotiated.
    session: Option<&'static Revision>,
    constants: Constants,
    /// Every call accepted and not over, by arrival.
    calls: BTreeMap<Key, Call>,
    /// Those not started, in arrival order, each with what it will run.
    waiting: VecDeque<(Key, Job)>,
    batches: BTreeMap<Key, Batch>,
    /// A call that this thread looks after itself for its first moment: to start another thread costs more than all else
    /// that a short call takes beyond its child.
    quick: Option<Work>,
    next_key: Key,
    /// stdin has ended.
    ending: bool,
}

/// A call of a tool that runs a program.
struct Call {
    /// Taken when the call is answered or cancelled: after that nothing can be written for it.
    ticket: Option<Ticket>,
    read_only: bool,
    /// What stops it; `None` while it waits.
    running: Option<Arc<Stop>>,
    accepted: Instant,
    /// Heartbeats that have passed.
    beats: u32,
    note: Option<String>,
}

/// All that a call's thread needs.
struct Work {
    key: Key,
    id: Id,
    revision: &'static Revision,
    job: Job,
    /// Its child, if that was started.
    started: Option<Started>,
    stop: Arc<Stop>,
    wants_notes: bool,
}

/// The right to answer one request, once.
struct Ticket {
    id: Id,
    revision: &'static Revision,
    progress: Option<Box<RawValue>>,
    batch: Option<Key>,
}

/// The replies to one array, written together when the last is there.
struct Batch {
    replies: Vec<Vec<u8>>,
    /// The ids of those replies: until they are written their requests are in flight.
    ids: BTreeSet<Id>,
    /// Bytes of the replies, and of what the replies may repeat of their requests.
    size: usize,
    open: usize,
}

impl Batch {
    /// What one more reply may take, so that the others can at least be refused.
    fn room(&self) -> usize {
        MAX_REPLY.saturating_sub(self.size + self.open * MAX_REFUSAL)
    }
}

impl Server {
    fn serve(&mut self) -> u8 {
        loop {
            self.start_calls();
            if self.ending && self.calls.is_empty() && self.transport.is_flushed() {
                return 0;
            }
            let deadline = self.deadline();
            let child = self.quick.as_mut().and_then(|work| work.started.as_mut());
            let handles = child.map(Started::handles).unwrap_or_default();
            match self.transport.next(deadline, &handles) {
                Event::Line(Line::Whole(line)) => self.receive(&line),
                Event::Line(Line::TooLong) => {
                    let error = RpcError::new(
                        rpc::INVALID_REQUEST,
                        format!("the line is longer than {} bytes and was passed over", crate::config::MAX_LINE),
                    );
                    self.transport.send(rpc::failure(None, &error));
                }
                Event::Eof => self.ending = true,
                Event::Finished(key, line) => self.finish(key, line),
                Event::Note(key, line) => {
                    if let Some(call) = self.calls.get_mut(&key) {
                        call.note = Some(line);
                    }
                }
                Event::Sent => {}
                Event::Child => self.attend(),
                Event::Tick => {
                    self.attend();
                    self.beat();
                }
                Event::Lost => {
                    self.shut_down();
                    return 0;
                }
                Event::Stop(signal) => {
                    self.shut_down();
                    return u8::try_from(128 + signal).unwrap_or(1);
                }
            }
        }
    }

    fn receive(&mut self, line: &[u8]) {
        match rpc::parse(line) {
            // What is repeated of a request may take twice its size, since separators are escaped; and as many calls as
            // are accepted may each be answered that their envelope does not fit.
            Ok(Incoming::Batch(members)) => {
                self.receive_batch(&members, 2 * line.len() + (MAX_WAITING + MAX_READERS) * 1024);
            }
            message => self.receive_one(message, None),
        }
    }

    fn receive_batch(&mut self, members: &[&RawValue], size: usize) {
        let refusal = match members.len() {
            _ if !self.session.is_some_and(|revision| revision.batches) => {
                "arrays of messages are served in a session of 2025-03-26 only: send one message per line"
            }
            0 => "a batch holds at least one message",
            1..=MAX_BATCH => "",
            _ => "the batch holds more messages than are served at once: send fewer in one array",
        };
        if !refusal.is_empty() {
            return self.transport.send(rpc::failure(None, &RpcError::new(rpc::INVALID_REQUEST, refusal)));
        }
        let key = self.new_key();
        // One more than there are members, so that it is not over before all of them are read.
        self.batches.insert(key, Batch { replies: Vec::new(), ids: BTreeSet::new(), size, open: members.len() + 1 });
        for member in members {
            self.receive_one(rpc::parse_message(member.get()), Some(key));
        }
        self.close_member(key);
    }

    fn receive_one(&mut self, message: Result<Incoming, Rejected>, batch: Option<Key>) {
        match message {
            Ok(Incoming::Request(request)) => match self.answer(&request, batch) {
                Ok(Answer::Now(line)) if line.len() > self.room(batch) => {
                    let why =
                        "the replies to this array would be too long for a client to read; send fewer messages in one";
                    let error = RpcError::new(rpc::INVALID_REQUEST, why);
                    self.send(Some(&request.id), rpc::failure(Some(&request.id), &error), batch);
                }
                Ok(Answer::Now(line)) => self.send(Some(&request.id), line, batch),
                Ok(Answer::Later) => {}
                Err(error) => self.send(Some(&request.id), rpc::failure(Some(&request.id), &error), batch),
            },
            Ok(Incoming::Notification { method, params }) => {
                if method == "notifications/cancelled" {
                    self.cancel(params);
                }
                self.skip(batch);
            }
            Ok(Incoming::Batch(_) | Incoming::Response) => self.skip(batch),
            Err(Rejected { id, error }) => self.send(id.as_ref(), rpc::failure(id.as_ref(), &error), batch),
        }
    }

    /// Writes a reply, or keeps it until its batch is whole.
    fn send(&mut self, id: Option<&Id>, line: Vec<u8>, batch: Option<Key>) {
        match batch.and_then(|key| Some((key, self.batches.get_mut(&key)?))) {
            Some((key, batch)) => {
                batch.size += line.len();
                batch.ids.extend(id.cloned());
                batch.replies.push(line);
                self.close_member(key);
            }
            None => self.transport.send(line),
        }
    }

    /// A member that gets no reply.
    fn skip(&mut self, batch: Option<Key>) {
        if let Some(key) = batch {
            self.close_member(key);
        }
    }

    fn close_member(&mut self, key: Key) {
        let Some(batch) = self.batches.get_mut(&key) else { return };
        batch.open -= 1;
        if batch.open == 0
            && let Some(batch) = self.batches.remove(&key)
            && !batch.replies.is_empty()
        {
            self.transport.send(rpc::array(&batch.replies));
        }
    }

    fn is_in_flight(&self, id: &Id) -> bool {
        self.calls.values().any(|call| call.ticket.as_ref().is_some_and(|ticket| ticket.id == *id))
            || self.batches.values().any(|batch| batch.ids.contains(id))
    }

    fn answer(&mut self, request: &Request, batch: Option<Key>) -> Result<Answer, RpcError> {
        const NAMES: [&str; 4] = ["_meta", "protocolVersion", "name", "arguments"];
        let Request { id, method, params } = request;
        if self.is_in_flight(id) {
            return Err(RpcError::new(
                rpc::INVALID_REQUEST,
                "a request with this id is still being served; choose another id",
            ));
        }
        // Once for all methods: the parameters are the long part of a request.
        let [meta, version, name, arguments] =
            params.and_then(|params| rpc::members(params.get(), NAMES)).unwrap_or_default();
        let claim = Claim::read(meta);
        if method == "initialize" && (claim.is_none() || version.is_some()) {
            return self.initialize(id, version, batch);
        }
        if method == "ping" && claim.is_none() {
            return Ok(Answer::Now(rpc::success(id, &reply::ping())));
        }
        let progress = progress_token(meta)?;
        let revision = claim.map_or_else(|| revision::of_session(method, self.session), |claim| claim.revision())?;
        match method.as_ref() {
            "tools/list" => Ok(Answer::Now(rpc::success_encoded(id, self.constants.list(revision)))),
            "tools/call" => self.call(name, arguments, Ticket { id: id.clone(), revision, progress, batch }),
            "server/discover" if revision.stateless => Ok(Answer::Now(rpc::success(id, &reply::discover(revision)))),
            _ => Err(RpcError::new(rpc::METHOD_NOT_FOUND, format!("no method {}", shown(method)))),
        }
    }

    fn initialize(&mut self, id: &Id, version: Option<&RawValue>, batch: Option<Key>) -> Result<Answer, RpcError> {
        if batch.is_some() {
            return Err(RpcError::new(rpc::INVALID_REQUEST, "initialize stands alone, never in a batch"));
        }
        let revision = revision::negotiate(version.and_then(rpc::string).as_deref());
        self.session = Some(revision);
        Ok(Answer::Now(rpc::success(id, &reply::initialize(revision))))
    }

    fn call(
        &mut self,
        name: Option<&RawValue>,
        arguments: Option<&RawValue>,
        ticket: Ticket,
    ) -> Result<Answer, RpcError> {
        let name = name.and_then(rpc::string).ok_or_else(|| RpcError::params("tools/call needs the name of a tool"))?;
        let tool = tools::find(&name)
            .ok_or_else(|| RpcError::params(format!("no tool {}; tools/list names them", shown(&name))))?;
        let arguments = arguments.filter(|arguments| arguments.get() != "null");
        if arguments.is_some_and(|arguments| !rpc::is_object(arguments)) {
            return Err(RpcError::params("arguments must be an object"));
        }
        let args = match tools::check(tool, arguments) {
            Ok(args) => args,
            Err(refusal) => return Ok(refuse(&ticket, refusal)),
        };
        let build = match tool.run {
            Run::Fz(build) => build,
            Run::Catalogue => {
                let catalogue = self.constants.catalogue(ticket.revision);
                return Ok(Answer::Now(rpc::success_encoded(&ticket.id, catalogue)));
            }
        };
        if self.waiting.len() >= MAX_WAITING {
            let busy = format!(
                "busy: {MAX_WAITING} calls wait already, and nothing was run; call again when some are answered"
            );
            return Ok(refuse(&ticket, Failure::new(Code::Unavailable, busy)));
        }
        let key = self.new_key();
        let read_only = tool.hints.read_only;
        self.waiting.push_back((key, Job { argv: build(&args), paths: args.paths(), read_only }));
        let accepted = Instant::now();
        self.calls.insert(key, Call { ticket: Some(ticket), read_only, running: None, accepted, beats: 0, note: None });
        self.start_calls();
        Ok(Answer::Later)
    }

    /// Bytes that one reply may take.
    fn room(&self, batch: Option<Key>) -> usize {
        batch.and_then(|key| self.batches.get(&key)).map_or(MAX_REPLY, Batch::room)
    }

    fn new_key(&mut self) -> Key {
        self.next_key += 1;
        self.next_key
    }

    /// Starts what may run now: readers beside readers, a writer alone, nobody before an earlier one.
    fn start_calls(&mut self) {
        while let Some((_, job)) = self.waiting.front() {
            let running = self.calls.values().filter(|call| call.running.is_some());
            let (count, writes) =
                running.fold((0, false), |(count, writes), call| (count + 1, writes || !call.read_only));
            let may_start = if job.read_only { !writes && count < MAX_READERS } else { count == 0 };
            if !may_start || self.transport.is_congested() {
                return;
            }
            if let Some((key, job)) = self.waiting.pop_front() {
                self.start(key, job);
            }
        }
    }

    fn start(&mut self, key: Key, job: Job) {
        let is_alone = self.calls.values().all(|call| call.running.is_none());
        let Some(call) = self.calls.get_mut(&key) else { return };
        let Some(ticket) = &call.ticket else { return };
        let stop = Arc::new(Stop::default());
        let (id, revision, wants_notes) = (ticket.id.clone(), ticket.revision, ticket.progress.is_some());
        let work = Work { key, id, revision, job, started: None, stop: Arc::clone(&stop), wants_notes };
        call.running = Some(stop);
        self.delegate_quick();
        if is_alone {
            self.quick = Some(work);
        } else {
            self.delegate(work);
        }
    }

    /// Gives a call a thread of its own.
    fn delegate(&mut self, work: Work) {
        let (key, was_started) = (work.key, work.started.is_some());
        let (config, mailbox) = (Arc::clone(&self.config), self.transport.mailbox());
        let run = move || {
            let Work { key, id, revision, job, started, stop, wants_notes } = work;
            let note = |line| mailbox.note(key, line);
            let note: Option<&dyn Fn(String)> = if wants_notes { Some(&note) } else { None };
            // Encoded here, so that a large answer keeps nobody waiting.
            let answer = || reply::call(revision, &id, &call::run(&config, &job, started, &stop, note));
            mailbox.finished(key, catch_unwind(AssertUnwindSafe(answer)).ok());
        };
        if let Err(error) = std::thread::Builder::new().name("call".into()).spawn(run) {
            let what = if was_started { "its program was stopped, and what it wrote stays" } else { "nothing was run" };
            let why = format!("the system allows no further thread: {error}; {what}");
            self.fail(key, Failure::new(Code::Unavailable, why));
        }
    }

    /// Leaves the call that this thread looks after to its own.
    fn delegate_quick(&mut self) {
        if let Some(work) = self.quick.take() {
            self.delegate(work);
        }
    }

    /// Starts the call that this thread looks after, or takes what its child has written since.
    fn attend(&mut self) {
        let Some(mut work) = self.quick.take() else { return };
        let Some(started) = &mut work.started else {
            let start = || Started::at_once(&self.config, &work.job);
            work.started = catch_unwind(AssertUnwindSafe(start)).unwrap_or_default();
            match work.started {
                Some(_) => self.quick = Some(work),
                None => self.delegate(work),
            }
            return;
        };
        let answer = || match started.advance() {
            Progress::Done(envelope) => Ok(reply::call(work.revision, &work.id, &envelope)),
            progress => Err(progress),
        };
        match catch_unwind(AssertUnwindSafe(answer)) {
            Ok(Err(Progress::Going)) => self.quick = Some(work),
            Ok(Err(_)) => self.delegate(work),
            ended => {
                // The venture is free before its answer is there.
                work.started = None;
                self.finish(work.key, ended.ok().and_then(Result::ok));
            }
        }
    }

    /// Answers a call that has no thread.
    fn fail(&mut self, key: Key, failure: Failure) {
        let ticket = self.calls.get(&key).and_then(|call| call.ticket.as_ref());
        let line = ticket.map(|ticket| reply::call(ticket.revision, &ticket.id, &failure.into()));
        self.finish(key, line);
    }

    fn finish(&mut self, key: Key, line: Option<Vec<u8>>) {
        let Some(call) = self.calls.remove(&key) else { return };
        let Some(ticket) = call.ticket else { return };
        let line = match line {
            Some(line) if line.len() <= self.room(ticket.batch) => line,
            Some(_) => reply::too_long(ticket.revision, &ticket.id),
            None => rpc::failure(Some(&ticket.id), &internal()),
        };
        self.send(Some(&ticket.id), line, ticket.batch);
    }

    /// Takes a call out of the queue, or stops it. Its ticket goes, so nothing is written for it any more.
    fn cancel(&mut self, params: Option<&RawValue>) {
        let [id] = params.and_then(|params| rpc::members(params.get(), ["requestId"])).unwrap_or_default();
        let Some(id) = id.and_then(Id::read) else { return };
        let found = self.calls.iter_mut().find(|(_, call)| call.ticket.as_ref().is_some_and(|ticket| ticket.id == id));
        let Some((&key, call)) = found else { return };
        let batch = call.ticket.take().and_then(|ticket| ticket.batch);
        if let Some(stop) = &call.running {
            stop.cancel();
            self.delegate_quick();
        } else {
            self.calls.remove(&key);
            self.waiting.retain(|(waiting, _)| *waiting != key);
        }
        self.skip(batch);
    }

    /// When there is something to do even if nothing happens.
    fn deadline(&self) -> Option<Instant> {
        let calls =
            self.calls.values().filter(|call| call.ticket.as_ref().is_some_and(|ticket| ticket.progress.is_some()));
        let heartbeats = calls.map(|call| call.accepted + HEARTBEAT * (call.beats + 1));
        // At once where nothing else has come in: a call that is not alone goes to its thread.
        let quick = |work: &Work| work.started.as_ref().map_or_else(Instant::now, Started::slow_from);
        heartbeats.chain(self.quick.iter().map(quick)).min()
    }

    fn beat(&mut self) {
        let now = Instant::now();
        let congested = self.transport.is_congested();
        for call in self.calls.values_mut() {
            let seconds = now.duration_since(call.accepted).as_secs();
            let beats = u32::try_from(seconds / HEARTBEAT.as_secs()).unwrap_or(u32::MAX - 1);
            let Some(ticket) = call.ticket.as_ref().filter(|_| beats > call.beats) else { continue };
            call.beats = beats;
            let Some(token) = ticket.progress.as_ref().filter(|_| !congested) else { continue };
            let state = if call.running.is_some() { "running" } else { "waiting for its turn" };
            let message = match &call.note {
                Some(note) => format!("{state}, {seconds} s: {note}"),
                None => format!("{state}, {seconds} s"),
            };
            self.transport.send(reply::progress(ticket.revision, token, seconds, &message));
        }
    }

    /// Stops every process tree and waits until they are gone, for a bounded time.
    fn shut_down(&mut self) {
        self.delegate_quick();
        self.waiting.clear();
        self.calls.retain(|_, call| match &call.running {
            Some(stop) => {
                stop.shut_down();
                call.ticket = None;
                true
            }
            None => false,
        });
        let deadline = Instant::now() + SHUTDOWN;
        while !self.calls.is_empty() {
            match self.transport.next_posted(deadline) {
                Some(Event::Finished(key, _)) => drop(self.calls.remove(&key)),
                Some(_) => {}
                None => return,
            }
        }
    }
}

enum Answer {
    Now(Vec<u8>),
    /// By a call that was accepted.
    Later,
}

/// The answer to a call that is not run.
fn refuse(ticket: &Ticket, why: impl Into<Envelope>) -> Answer {
    Answer::Now(reply::call(ticket.revision, &ticket.id, &why.into()))
}

fn internal() -> RpcError {
    RpcError::new(rpc::INTERNAL_ERROR, "the server met a fault of its own; other calls go on")
}

/// A name from the client, fit for a message.
fn shown(name: &str) -> String {
    crate::clean::name(name)
}

fn progress_token(meta: Option<&RawValue>) -> Result<Option<Box<RawValue>>, RpcError> {
    let Some(meta) = meta.filter(|meta| meta.get() != "null") else { return Ok(None) };
    let [token] =
        rpc::members(meta.get(), ["progressToken"]).ok_or_else(|| RpcError::params("_meta must be an object"))?;
    match token.filter(|token| token.get() != "null") {
        Some(token) if Id::read(token).is_none() || token.get().len() > MAX_TOKEN => {
            Err(RpcError::params(format!("progressToken is a string or an integer of at most {MAX_TOKEN} bytes")))
        }
        token => Ok(token.map(ToOwned::to_owned)),
    }
}
