//! The tools: [`TABLE`] has one row per verb that speaks `--json`, with its prose, parameters, hints and argv. The
//! listing and the checking of arguments read the same rows. Pure.
//!
//! Source: `docs/MCP.md` for which verbs, the CLI's own help for what each does.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::clean;
use crate::config::{MAX_ARGUMENTS, MAX_REFUSALS, MAX_VALUE};
use crate::rpc;

/// One tool.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) description: &'static str,
    pub(crate) params: &'static [Param],
    pub(crate) hints: Hints,
    pub(crate) run: Run,
}

/// What a call of a tool does.
pub(crate) enum Run {
    /// Starts fz with the argv built from checked arguments.
    Fz(fn(&Args) -> Argv),
    /// Serves the catalogue of codes from memory.
    Catalogue,
}

/// What a tool may do, as `annotations` says it. No tool reaches beyond the venture, so `openWorldHint` is false for
/// all.
#[derive(Clone, Copy)]
pub(crate) struct Hints {
    /// Changes nothing: such calls run side by side, all others alone.
    pub(crate) read_only: bool,
    /// May replace what was there.
    pub(crate) destructive: bool,
    /// The same call again changes nothing more.
    pub(crate) idempotent: bool,
}

const READS: Hints = Hints { read_only: true, destructive: false, idempotent: true };
const ADDS: Hints = Hints { read_only: false, destructive: false, idempotent: true };
const REPLACES: Hints = Hints { read_only: false, destructive: true, idempotent: true };

/// One argument of a tool.
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    pub(crate) description: &'static str,
}

/// What an argument's value is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A string.
    Text,
    /// A string that names a place inside the venture.
    Path,
    /// A boolean.
    Switch,
}

impl Param {
    const fn new(name: &'static str, kind: Kind, description: &'static str) -> Self {
        Self { name, kind, required: false, description }
    }

    const fn required(self) -> Self {
        Self { required: true, ..self }
    }
}

const MANIFEST: Param =
    Param::new("manifest", Kind::Path, "The venture manifest, .json or .toml. Default: venture.json");
const MIGRATIONS: Param =
    Param::new("migrations", Kind::Path, "The directory of collected migrations. Default: migrations");

/// All tools, in the order they are listed in: the reading ones before what they lead to, the catalogue last, then what
/// came after the first release.
pub(crate) static TABLE: [Tool; 8] = [
    Tool {
        name: "fz_doctor",
        title: "Check the compiled venture",
        description: "Runs fz doctor: checks the harness compiled into the venture's fz, its collected migrations and \
                      the environment. Writes nothing. It does not read the manifest: after fz_add it stays green \
                      until the venture is rebuilt. migration-not-collected is mended by the operator with fz \
                      migrations collect in a terminal.",
        params: &[
            Param::new("out", Kind::Path, "The directory of collected migrations. Default: migrations"),
            Param::new(
                "allow_no_captcha",
                Kind::Text,
                "The reason for accepting a production venture without a captcha; turns that failure into a pass",
            ),
        ],
        hints: READS,
        run: Run::Fz(doctor),
    },
    Tool {
        name: "fz_plan",
        title: "Plan a deployment",
        description: "Runs fz plan: what the manifest would change against the last deployment (modules, capabilities, \
                      config, migrations), and the digest that approves exactly this plan for fz_deploy. Writes \
                      nothing. It reads the manifest, not the compiled harness. ok does not mean ready: \
                      migrations.not_collected names modules whose migrations the operator has to collect first.",
        params: &[MANIFEST, MIGRATIONS],
        hints: READS,
        run: Run::Fz(plan),
    },
    Tool {
        name: "fz_verify",
        title: "Compare with the last deployment",
        description: "Runs fz verify: whether the recorded deployment still matches the manifest and the migrations; \
                      drift comes back as coded failures. Writes nothing. It compares records and does not ask a \
                      running service.",
        params: &[MANIFEST, MIGRATIONS],
        hints: READS,
        run: Run::Fz(verify),
    },
    Tool {
        name: "fz_init",
        title: "Start a manifest",
        description: "Runs fz init: writes a new manifest with a name, a host and no modules. Refuses to overwrite one \
                      unless force is true, which replaces it whole. Creates no crate and no migrations.",
        params: &[
            Param::new("name", Kind::Text, "The venture's name").required(),
            Param::new("host", Kind::Text, "The host its backend answers on, like api.example.com").required(),
            Param::new("manifest", Kind::Path, "Where to write the manifest. Default: venture.json"),
            Param::new("force", Kind::Switch, "Replace an existing manifest. Default: false"),
        ],
        hints: REPLACES,
        run: Run::Fz(init),
    },
    Tool {
        name: "fz_add",
        title: "Add a module to the manifest",
        description: "Runs fz add: adds one module to the manifest and nothing else; one already there is a success \
                      with changed false. It does not change code, collect migrations or deploy: plan afterwards. \
                      A module is removed by editing the manifest.",
        params: &[
            Param::new(
                "module",
                Kind::Text,
                "The module's slug, like waitlist; an unknown one is refused with the list of those there are",
            )
            .required(),
            MANIFEST,
        ],
        hints: ADDS,
        run: Run::Fz(add),
    },
    Tool {
        name: "fz_deploy",
        title: "Record an approved plan",
        description: "Runs fz deploy: recomputes the plan and, if its digest is the given one, records it in \
                      .harness-deploy.json beside the manifest. Nothing goes live: building, migrating and publishing \
                      stay with the operator. Refuses a missing or stale plan. A production venture and a plan that \
                      removes modules each need the consent of a person.",
        params: &[
            Param::new(
                "plan",
                Kind::Text,
                "The digest that fz_plan gave and that was approved; never one from a stale-plan message",
            ),
            MANIFEST,
            MIGRATIONS,
            Param::new(
                "i_am_deploying_to_production",
                Kind::Switch,
                "Consent to a production deployment; set it only when a person asked for one. Default: false",
            ),
            Param::new(
                "i_am_removing_modules",
                Kind::Switch,
                "Consent to a plan that removes modules; set it only when a person asked for that. Default: false",
            ),
        ],
        hints: REPLACES,
        run: Run::Fz(deploy),
    },
    Tool {
        name: "fz_error_codes",
        title: "Look up failure codes",
        description: "The catalogue of every code a failure can carry, with title, description and source: fz for the \
                      CLI's own, mcp for this server's four. Runs no program. It is the catalogue this server was \
                      built with; a venture's newer fz may know more.",
        params: &[],
        hints: READS,
        run: Run::Catalogue,
    },
    Tool {
        name: "fz_client_ts",
        title: "Generate the TypeScript client",
        description: "Runs fz client-ts: reads a /__surface document saved from a running venture and writes the files \
                      of its typed TypeScript client to out, replacing those of the same names. It fetches nothing: \
                      save the document first. It does not build or publish the package.",
        params: &[
            Param::new("surface", Kind::Path, "The saved /__surface document, a JSON file").required(),
            Param::new("out", Kind::Path, "The directory to write the client package to").required(),
        ],
        hints: REPLACES,
        run: Run::Fz(client_ts),
    },
];

/// The tool of that name.
pub(crate) fn find(name: &str) -> Option<&'static Tool> {
    TABLE.iter().find(|tool| tool.name == name)
}

/// Words for the program: the verb, its options each as one word, then positionals behind `--`, so that no value can
/// become an option.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Argv(pub(crate) Vec<String>);

impl Argv {
    fn verb(verb: &str) -> Self {
        Self(vec![verb.to_owned(), "--json".to_owned()])
    }

    /// A verb of the manifest workflow, which also knows `--non-interactive`.
    fn workflow(verb: &str) -> Self {
        Self::verb(verb).switch("--non-interactive", true)
    }

    fn option(mut self, flag: &str, value: Option<&str>) -> Self {
        self.0.extend(value.map(|value| format!("{flag}={value}")));
        self
    }

    fn switch(mut self, flag: &str, on: bool) -> Self {
        self.0.extend(on.then(|| flag.to_owned()));
        self
    }

    fn positional(mut self, value: Option<&str>) -> Self {
        self.0.extend(value.into_iter().flat_map(|value| ["--".to_owned(), value.to_owned()]));
        self
    }
}

fn doctor(args: &Args) -> Argv {
    Argv::verb("doctor").option("--out", args.text("out")).option("--allow-no-captcha", args.text("allow_no_captcha"))
}

fn plan(args: &Args) -> Argv {
    Argv::workflow("plan").option("--manifest", args.text("manifest")).option("--migrations", args.text("migrations"))
}

fn verify(args: &Args) -> Argv {
    Argv::workflow("verify").option("--manifest", args.text("manifest")).option("--migrations", args.text("migrations"))
}

fn init(args: &Args) -> Argv {
    Argv::workflow("init")
        .option("--name", args.text("name"))
        .option("--host", args.text("host"))
        .option("--manifest", args.text("manifest"))
        .switch("--force", args.is_on("force"))
}

fn add(args: &Args) -> Argv {
    Argv::workflow("add").option("--manifest", args.text("manifest")).positional(args.text("module"))
}

fn deploy(args: &Args) -> Argv {
    Argv::workflow("deploy")
        .option("--plan", args.text("plan"))
        .option("--manifest", args.text("manifest"))
        .option("--migrations", args.text("migrations"))
        .switch("--i-am-deploying-to-production", args.is_on("i_am_deploying_to_production"))
        .switch("--i-am-removing-modules", args.is_on("i_am_removing_modules"))
}

fn client_ts(args: &Args) -> Argv {
    Argv::verb("client-ts").option("--surface", args.text("surface")).option("--out", args.text("out"))
}

/// Arguments that passed every check but the one that needs the file system.
pub(crate) struct Args(Vec<(&'static Param, Value)>);

enum Value {
    Text(String),
    Switch(bool),
}

impl Args {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find_map(|(param, value)| match value {
            Value::Text(text) if param.name == name => Some(text.as_str()),
            _ => None,
        })
    }

    fn is_on(&self, name: &str) -> bool {
        self.0.iter().any(|(param, value)| param.name == name && matches!(value, Value::Switch(true)))
    }

    /// The values that name a place, each with its argument's name.
    pub(crate) fn paths(&self) -> Vec<(&'static str, String)> {
        let paths = self.0.iter().filter(|(param, _)| param.kind == Kind::Path);
        paths.filter_map(|(param, _)| Some((param.name, self.text(param.name)?.to_owned()))).collect()
    }
}

/// Why arguments were refused: a sentence per argument, each naming it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) Vec<String>);

/// Checks the `arguments` of a call, an object or absent, against a tool's parameters.
pub(crate) fn check(tool: &Tool, arguments: Option<&RawValue>) -> Result<Args, Refusal> {
    let encoded = arguments.map_or("{}", RawValue::get);
    if encoded.len() > MAX_ARGUMENTS {
        let size = encoded.len();
        return Err(Refusal(vec![format!("arguments take {size} bytes, and at most {MAX_ARGUMENTS} are passed on")]));
    }
    let mut refused = Vec::new();
    let mut args: Vec<(&'static Param, Value)> = Vec::new();
    for (name, raw) in entries(encoded) {
        if refused.len() == MAX_REFUSALS {
            refused.push("there are more; correct these first".to_owned());
            return Err(Refusal(refused));
        }
        let Some(param) = tool.params.iter().find(|param| param.name == name) else {
            refused.push(unknown(tool, &name));
            continue;
        };
        args.retain(|(known, _)| known.name != param.name);
        match read(param, raw) {
            Ok(Some(value)) => args.push((param, value)),
            Ok(None) => {}
            Err(why) => refused.push(format!("{}: {why}", param.name)),
        }
    }
    for param in tool.params.iter().filter(|param| param.required) {
        let is_missing = !args.iter().any(|(known, _)| known.name == param.name);
        if is_missing && !refused.iter().any(|why| why.starts_with(&format!("{}: ", param.name))) {
            refused.push(format!("{}: is required by {}", param.name, tool.name));
        }
    }
    if refused.is_empty() { Ok(Args(args)) } else { Err(Refusal(refused)) }
}

fn unknown(tool: &Tool, name: &str) -> String {
    let shown = clean::name(name);
    let known: Vec<_> = tool.params.iter().map(|param| param.name).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    format!("{shown}: {} has no such argument; it takes {known}", tool.name)
}

/// The value of one argument; `None` where it is `null`, which counts as absent.
fn read(param: &Param, raw: &RawValue) -> Result<Option<Value>, Cow<'static, str>> {
    match (param.kind, raw.get()) {
        (_, "null") => Ok(None),
        (Kind::Switch, "true") => Ok(Some(Value::Switch(true))),
        (Kind::Switch, "false") => Ok(Some(Value::Switch(false))),
        (Kind::Switch, _) => Err("must be true or false, without quotes".into()),
        (Kind::Text | Kind::Path, text) if !text.starts_with('"') => Err("must be a string".into()),
        (Kind::Text | Kind::Path, _) => {
            let text = rpc::string(raw).ok_or("holds half a surrogate pair, which is no text")?;
            check_text(&text)?;
            Ok(Some(Value::Text(text.into_owned())))
        }
    }
}

fn check_text(text: &str) -> Result<(), Cow<'static, str>> {
    if text.is_empty() {
        return Err("is empty; leave it out or give a value".into());
    }
    if text.len() > MAX_VALUE {
        return Err(format!("is {} bytes long, and at most {MAX_VALUE} are passed on", text.len()).into());
    }
    if text.starts_with('-') {
        return Err("begins with -, which fz would read as an option".into());
    }
    if text.chars().any(char::is_control) {
        return Err("holds a control character".into());
    }
    Ok(())
}

/// The members of an object in their order. A key that is no text comes with its broken characters replaced: it is
/// then unknown.
fn entries(json: &str) -> Vec<(Cow<'_, str>, &RawValue)> {
    struct Entries;
    impl<'de> Visitor<'de> for Entries {
        type Value = Vec<(Cow<'de, str>, &'de RawValue)>;
        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            while let Some(key) = map.next_key_seed(Key)? {
                entries.push((key, map.next_value()?));
            }
            Ok(entries)
        }
    }

    struct Key;
    impl<'de> DeserializeSeed<'de> for Key {
        type Value = Cow<'de, str>;
        fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
            reader.deserialize_bytes(self)
        }
    }
    impl<'de> Visitor<'de> for Key {
        type Value = Cow<'de, str>;
        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("a key")
        }
        fn visit_borrowed_bytes<E>(self, key: &'de [u8]) -> Result<Self::Value, E> {
            Ok(String::from_utf8_lossy(key))
        }
        fn visit_bytes<E>(self, key: &[u8]) -> Result<Self::Value, E> {
            Ok(Cow::Owned(String::from_utf8_lossy(key).into_owned()))
        }
    }

    // The caller made sure that it is an object, and it was parsed as part of its line.
    serde_json::Deserializer::from_str(json).deserialize_map(Entries).unwrap_or_default()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn checked(tool: &str, arguments: &str) -> Result<Args, Refusal> {
        check(find(tool).unwrap(), Some(serde_json::from_str(arguments).unwrap()))
    }

    fn argv(tool: &str, arguments: &str) -> Vec<String> {
        let Run::Fz(build) = find(tool).unwrap().run else { panic!("{tool} runs nothing") };
        build(&checked(tool, arguments).ok().unwrap()).0
    }

    fn refusal(tool: &str, arguments: &str) -> String {
        checked(tool, arguments).err().unwrap().0.join("\n")
    }

    #[test]
    fn names_stay_in_what_every_client_accepts() {
        let fits = |name: &str| {
            (1..=32).contains(&name.len()) && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'))
        };
        for tool in &TABLE {
            assert!(fits(tool.name) && tool.params.iter().all(|param| fits(param.name)), "{}", tool.name);
        }
    }

    #[test]
    fn options_travel_with_their_value_and_positionals_behind_a_double_dash() {
        assert_eq!(argv("fz_doctor", "{}"), ["doctor", "--json"]);
        assert_eq!(
            argv("fz_add", r#"{"module":"cms","manifest":"v.json"}"#),
            ["add", "--json", "--non-interactive", "--manifest=v.json", "--", "cms"]
        );
        assert_eq!(
            argv("fz_deploy", r#"{"i_am_removing_modules":true,"i_am_deploying_to_production":false,"plan":"d"}"#),
            ["deploy", "--json", "--non-interactive", "--plan=d", "--i-am-removing-modules"]
        );
    }

    #[test]
    fn each_bad_argument_is_named_and_all_are_told_at_once() {
        let told = refusal("fz_init", r#"{"name":7,"hots":"x","force":"true"}"#);
        for start in [
            "name: must be a string",
            "hots: fz_init has no such argument; it takes name, host",
            "force: must be true or false",
            "host: is required",
        ] {
            assert!(told.lines().any(|line| line.starts_with(start)), "{told}");
        }
        assert_eq!(told.lines().count(), 4);
    }

    #[test]
    fn values_that_could_mislead_fz_are_refused() {
        for (value, why) in [
            (r#""""#, "is empty"),
            (r#""-h""#, "begins with -"),
            (r#""a\u0000b""#, "control character"),
            (r#""a\nb""#, "control character"),
            (r#""\u009b""#, "control character"),
            (r#""\ud800""#, "half a surrogate"),
            ("{}", "must be a string"),
        ] {
            let told = refusal("fz_add", &format!(r#"{{"module":{value}}}"#));
            assert!(told.starts_with("module: ") && told.contains(why), "{told}");
        }
    }

    #[test]
    fn a_value_at_the_limit_passes_and_one_past_it_does_not() {
        let module = |length: usize| format!(r#"{{"module":"{}"}}"#, "m".repeat(length));
        assert!(checked("fz_add", &module(MAX_VALUE)).is_ok());
        assert!(refusal("fz_add", &module(MAX_VALUE + 1)).contains("32768"));
    }

    #[test]
    fn arguments_at_the_limit_pass_and_one_byte_past_it_do_not() {
        let padded = |length: usize| format!("{{{}}}", " ".repeat(length - 2));
        assert!(checked("fz_plan", &padded(MAX_ARGUMENTS)).is_ok());
        assert!(refusal("fz_plan", &padded(MAX_ARGUMENTS + 1)).starts_with("arguments take"));
    }

    #[test]
    fn null_counts_as_absent_also_for_what_is_required() {
        assert!(checked("fz_plan", r#"{"manifest":null}"#).is_ok());
        assert!(refusal("fz_add", r#"{"module":null}"#).contains("module: is required"));
    }
}
