"""The walk of walk.mjs, taken with the Python SDK: each finding goes to stdout as one JSON line."""

import json
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import mcp.client.stdio as stdio
from mcp import Client, MCPError

PATIENCE = 60

plan = json.load(sys.stdin)
marks = Path(plan["marks"])


def say(**finding):
    print(json.dumps(finding), flush=True)


def expect(holds, why):
    if not holds:
        raise AssertionError(why)


async def until(what, holds):
    with anyio.move_on_after(PATIENCE):
        while not (value := holds()):
            await anyio.sleep(0.02)
        return value
    raise AssertionError(f"waited in vain for {what}")


def alive():
    """The processes of this walk: all that it starts is started by a path inside its own directory."""
    table = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,stat=,args="], capture_output=True, text=True, check=True)
    rows = (line.split(None, 2) for line in table.stdout.splitlines())
    return [int(row[0]) for row in rows if len(row) == 3 and row[1][0] != "Z" and plan["root"] in row[2]]


async def gone():
    await until("the end of every process", lambda: not alive())


async def hanging():
    """Waits until the child that never ends has started, its helper too, and answers their process ids."""
    names = [marks / "leader", marks / "helper"]
    await until("the child and its helper", lambda: all(name.exists() for name in names))
    pids = [int(name.read_text().split()[0]) for name in names]
    for name in names:
        name.unlink()
    return pids


def refusal(result, code):
    expect(result.is_error is True, "isError is not true")
    expect(json.loads(result.content[0].text) == result.structured_content, "text and structured content differ")
    expect(result.structured_content["ok"] is False, "ok is not false")
    expect(result.structured_content["failures"][0]["code"] == code, result.structured_content)


def success(result):
    expect(not result.is_error, result)
    expect(result.content[0].text == plan["expected"], "the text is not what fz prints when it is run by hand")
    expect(result.structured_content == json.loads(plan["expected"]), "text and structured content differ")


class Wire:
    """What one connection said and heard, and what its client could not read."""

    def __init__(self):
        self.sent, self.heard, self.complaints, self.process = [], [], [], None

    def out(self, message):
        self.sent.append(message.message.model_dump(by_alias=True, exclude_unset=True))

    def came(self, message):
        if isinstance(message, Exception):
            self.complaints.append(repr(message))
        else:
            self.heard.append(message.message.model_dump(by_alias=True, exclude_unset=True))

    def silence(self):
        """Nothing is written for a call once it is answered, or once it is cancelled."""
        cancels = [m for m in self.sent if m.get("method") == "notifications/cancelled"]
        for call in [m for m in self.sent if m.get("method") == "tools/call"]:
            answers = [at for at, m in enumerate(self.heard) if m.get("id") == call["id"]]
            cancel = next((m for m in cancels if m["params"]["requestId"] == call["id"]), None)
            last = answers[0] if answers else len(self.heard)
            if cancel:
                expect(not answers, "a cancelled call was answered")
                # A heartbeat may cross the cancellation on the way. The server has seen the cancellation once it
                # answers something that was sent behind it.
                behind = [m["id"] for m in self.sent[self.sent.index(cancel) :] if "id" in m]
                last = next((at for at, m in enumerate(self.heard) if m.get("id") in behind), last)
            token = call["params"].get("_meta", {}).get("progressToken")
            late = [m for m in self.heard[last + 1 :] if m.get("params", {}).get("progressToken") == token]
            expect(token is None or not late, "progress behind the end of the call")


class Tapped:
    """A stream of the transport that shows every message to `seen`."""

    def __init__(self, stream, seen):
        self.stream, self.seen = stream, seen

    def __getattr__(self, name):
        return getattr(self.stream, name)

    async def send(self, message):
        self.seen(message)
        await self.stream.send(message)

    async def receive(self):
        message = await self.stream.receive()
        self.seen(message)
        return message

    def __aiter__(self):
        return self

    async def __anext__(self):
        message = await self.stream.__anext__()
        self.seen(message)
        return message

    async def __aenter__(self):
        await self.stream.__aenter__()
        return self

    async def __aexit__(self, *how):
        return await self.stream.__aexit__(*how)


open_process = anyio.open_process


def connection():
    """A client that is not yet connected, and its wire."""
    wire = Wire()
    command, *args = plan["server"]

    @asynccontextmanager
    async def transport():
        async def remembered(*words, **options):
            wire.process = await open_process(*words, **options)
            return wire.process

        anyio.open_process = remembered
        async with stdio.stdio_client(stdio.StdioServerParameters(command=command, args=args)) as (read, write):
            yield Tapped(read, wire.came), Tapped(write, wire.out)

    return Client(transport(), mode=plan["era"], read_timeout_seconds=PATIENCE), wire


async def check(name, body, wire):
    complaints = len(wire.complaints)
    try:
        with anyio.fail_after(2 * PATIENCE):
            await body()
        expect(len(wire.complaints) == complaints, f"the client complained: {wire.complaints}")
        say(check=name, ok=True)
    except Exception as error:
        say(check=name, ok=False, why=f"{type(error).__name__}: {error}")


async def session(client, wire):
    async def listing():
        found = [tool.name for tool in (await client.list_tools()).tools]
        expect(found == plan["tools"], found)

    async def succeed():
        success(await client.call_tool("fz_plan", {}))

    async def refuse():
        refusal(await client.call_tool("fz_deploy", {}), "deploy-plan-required")

    async def argument():
        refusal(await client.call_tool("fz_plan", {"manifest": 7}), "mcp-argument-invalid")

    async def progress():
        seen, answers = [], []

        async def beat(value, total, message):
            seen.append((value, message or ""))

        async def call():
            answers.append(await client.call_tool("fz_doctor", {}, progress_callback=beat))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await until("two heartbeats", lambda: len(seen) >= 2 or answers)
            (marks / "go").touch()
        expect(answers[0].structured_content["ok"] is True, answers[0])
        values = [value for value, _ in seen]
        expect(len(values) >= 2, f"{len(values)} heartbeats")
        expect(all(low < high for low, high in zip(values, values[1:])), f"progress does not increase: {values}")
        expect(all("thinking" in text for _, text in seen), f"the last line of the child's stderr is missing: {seen}")
        success(await client.call_tool("fz_plan", {}))
        wire.silence()

    async def cancel():
        beats, answers = [], []
        scope = anyio.CancelScope()

        async def beat(value, total, message):
            beats.append(value)

        async def call():
            with scope:
                answers.append(await client.call_tool("fz_verify", {}, progress_callback=beat))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            pids = await hanging()
            await until("a heartbeat", lambda: beats)
            scope.cancel()
        expect(not answers, "the cancelled call was answered")
        await until("the end of the cancelled tree", lambda: not set(pids) & set(alive()))
        success(await client.call_tool("fz_plan", {}))
        expect(sum(m.get("method") == "notifications/cancelled" for m in wire.sent) == 1, "no cancellation was sent")
        wire.silence()

    for name, body in [
        ("list", listing),
        ("succeed", succeed),
        ("refuse", refuse),
        ("argument", argument),
        ("progress", progress),
        ("cancel", cancel),
    ]:
        await check(name, body, wire)


async def main():
    client, wire = connection()

    async def connected():
        say(revision=client.protocol_version)
        expect(client.protocol_version == plan["revision"], client.protocol_version)
        expect(client.server_info.name == "fz-mcp", client.server_info)

    async def closed():
        expect(wire.process.returncode == 0, f"the server ended with {wire.process.returncode}")
        await gone()
        wire.silence()

    # A connection is a scope of anyio, so no deadline can be laid around only its beginning or its end.
    stage = "connect"
    try:
        async with client:
            await check("connect", connected, wire)
            await session(client, wire)
            stage = "close"
        await check("close", closed, wire)
        stage = "abandon"
        await abandon()
        say(check="abandon", ok=True)
    except Exception as error:
        say(check=stage, ok=False, why=f"{type(error).__name__}: {error}")


async def abandon():
    client, _ = connection()

    async def call():
        try:
            await client.call_tool("fz_verify", {})
        except MCPError:
            pass  # The end of the connection is what it was left for.

    async with anyio.create_task_group() as tasks:
        async with client:
            tasks.start_soon(call)
            await hanging()
    await gone()


anyio.run(main)
