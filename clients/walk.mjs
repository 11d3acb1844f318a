// The walk that both generations of the TypeScript client take through a server. A client is handed in as `open`; each
// finding goes to stdout as one JSON line, and `run` makes the table of them.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const PATIENCE_MS = 60_000;

const plan = JSON.parse(readFileSync(0, "utf8"));
const mark = (name) => join(plan.marks, name);

async function until(what, holds) {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const value = holds();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`waited in vain for ${what}`);
    await new Promise((again) => setTimeout(again, 20));
  }
}

function within(what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited in vain for ${what}`)), 2 * PATIENCE_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function processes() {
  const table = execFileSync("ps", ["-A", "-ww", "-o", "pid=,stat=,args="], { encoding: "utf8" });
  return table.split("\n").map((line) => {
    const [, pid, state, args] = line.match(/^\s*(\d+)\s+(\S+)\s+(.*)$/) ?? [];
    return { pid: Number(pid), dead: state?.startsWith("Z"), args };
  });
}

// Everything that a walk starts, the children of the server included, is started by a path inside its own directory.
const alive = () => processes().filter((one) => !one.dead && one.args?.includes(plan.root));
const gone = (what) => until(what, () => alive().length === 0);

/** Waits until the child that never ends has started, its helper too, and answers their process ids. */
async function hanging() {
  await until("the child and its helper", () => existsSync(mark("leader")) && existsSync(mark("helper")));
  return ["leader", "helper"].map((name) => {
    const [pid] = readFileSync(mark(name), "utf8").split(" ");
    rmSync(mark(name));
    return Number(pid);
  });
}

function refusal(result, code) {
  assert.equal(result.isError, true);
  const [block] = result.content;
  assert.deepEqual(JSON.parse(block.text), result.structuredContent);
  assert.equal(result.structuredContent.ok, false);
  assert.equal(result.structuredContent.failures[0].code, code);
}

function success(result) {
  assert.ok(!result.isError, JSON.stringify(result));
  assert.equal(result.content[0].text, plan.expected, "the text is not what fz prints when it is run by hand");
  assert.deepEqual(result.structuredContent, JSON.parse(plan.expected));
}

/** What one connection said and heard, and what its client complained about. */
function listen(transport) {
  const wire = { sent: [], heard: [], complaints: [] };
  const send = transport.send.bind(transport);
  transport.send = (message, ...rest) => {
    wire.sent.push({ ...message, heardBefore: wire.heard.length });
    return send(message, ...rest);
  };
  transport.onmessage = (message) => wire.heard.push(message);
  transport.onerror = (error) => wire.complaints.push(String(error));
  return wire;
}

/** Nothing is written for a call once it is answered, or once it is cancelled. */
function silence(wire) {
  for (const call of wire.sent.filter((message) => message.method === "tools/call")) {
    const token = call.params._meta?.progressToken;
    const answers = wire.heard.filter((message) => message.id === call.id);
    const cancel = wire.sent.find((m) => m.method === "notifications/cancelled" && m.params.requestId === call.id);
    let last = wire.heard.findIndex((message) => message.id === call.id);
    if (cancel) {
      assert.equal(answers.length, 0, "a cancelled call was answered");
      // A heartbeat may cross the cancellation on the way. The server has seen the cancellation once it answers
      // something that was sent behind it.
      const behind = wire.sent.find((m) => m.id !== undefined && wire.sent.indexOf(m) > wire.sent.indexOf(cancel));
      last = wire.heard.findIndex((message) => behind && message.id === behind.id);
    }
    const late = wire.heard.filter((message, at) => last >= 0 && at > last && message.params?.progressToken === token);
    if (token !== undefined) assert.equal(late.length, 0, "progress behind the end of the call");
  }
}

export async function walk(open) {
  const session = open(plan);
  const wire = listen(session.transport);
  let connected = false;

  async function check(name, body, first = false) {
    const complaints = wire.complaints.length;
    try {
      if (!first && !connected) throw new Error("not connected");
      await within(name, body());
      assert.deepEqual(wire.complaints.slice(complaints), [], "the client complained");
      console.log(JSON.stringify({ check: name, ok: true }));
    } catch (error) {
      console.log(JSON.stringify({ check: name, ok: false, why: String(error?.message ?? error) }));
    }
  }

  await check("connect", async () => {
    await session.connect();
    connected = true;
    console.log(JSON.stringify({ revision: session.revision() }));
    assert.equal(session.revision(), plan.revision);
    assert.equal(session.client.getServerVersion()?.name, "fz-mcp");
  }, true);

  await check("list", async () => {
    const { tools } = await session.client.listTools();
    assert.deepEqual(tools.map((tool) => tool.name), plan.tools);
  });

  await check("succeed", async () => success(await session.call("fz_plan", {})));
  await check("refuse", async () => refusal(await session.call("fz_deploy", {}), "deploy-plan-required"));
  await check("argument", async () => refusal(await session.call("fz_plan", { manifest: 7 }), "mcp-argument-invalid"));

  await check("progress", async () => {
    const seen = [];
    const call = session.call("fz_doctor", {}, { onprogress: (beat) => seen.push(beat), timeout: PATIENCE_MS });
    await Promise.race([call, until("two heartbeats", () => seen.length >= 2)]);
    writeFileSync(mark("go"), "");
    const result = await call;
    assert.equal(result.structuredContent?.ok, true, JSON.stringify(result));
    assert.ok(seen.length >= 2, `${seen.length} heartbeats`);
    for (const [at, beat] of seen.entries()) {
      assert.ok(at === 0 || beat.progress > seen[at - 1].progress, "progress does not increase");
      assert.match(beat.message ?? "", /thinking/, "the message lacks the last line of the child's stderr");
    }
    success(await session.call("fz_plan", {}));
    silence(wire);
  });

  await check("cancel", async () => {
    const stop = new AbortController();
    const seen = [];
    const options = { signal: stop.signal, onprogress: (beat) => seen.push(beat), timeout: PATIENCE_MS };
    const call = session.call("fz_verify", {}, options).then(
      () => assert.fail("the cancelled call was answered"),
      (error) => error,
    );
    const pids = await Promise.race([hanging(), call.then((error) => { throw error; })]);
    await until("a heartbeat", () => seen.length > 0);
    stop.abort("enough");
    await call;
    await until("the end of the cancelled tree", () => !alive().some((one) => pids.includes(one.pid)));
    success(await session.call("fz_plan", {}));
    assert.equal(wire.sent.filter((message) => message.method === "notifications/cancelled").length, 1);
    silence(wire);
  });

  await check("close", async () => {
    // Not public, and the only place that knows how the server ended.
    const server = session.transport._process;
    const ended = new Promise((resolve) => server.once("exit", (code, signal) => resolve({ code, signal })));
    await session.close();
    assert.deepEqual(await ended, { code: 0, signal: null });
    await gone("the end of every process");
    silence(wire);
  });

  await check("abandon", async () => {
    const again = open(plan);
    await again.connect();
    const call = again.call("fz_verify", {}, { timeout: PATIENCE_MS }).catch((error) => error);
    await Promise.race([hanging(), call.then((answer) => assert.fail(`ended early: ${JSON.stringify(answer)}`))]);
    await again.close();
    await call;
    await gone("the end of every process");
  }, true);
}
