"""The walk of walk.mjs, as far as the Inspector's command line can take it: one command, one connection, one request."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PATIENCE = 60

plan = json.load(sys.stdin)
root, marks = Path(plan["root"]), Path(plan["marks"])
command, *args = plan["server"]
config = root / "inspector.json"
config.write_text(json.dumps({"mcpServers": {"fz": {"command": command, "args": args}}}))
# The Inspector keeps files of its own under the home directory, and secrets in the keychain of whoever runs it.
environment = os.environ | {"HOME": str(root), "MCP_INSPECTOR_SECRET_STORE": "memory"}


def say(**finding):
    print(json.dumps(finding), flush=True)


def expect(holds, why):
    if not holds:
        raise AssertionError(why)


def until(what, holds):
    deadline = time.monotonic() + PATIENCE
    while not holds():
        expect(time.monotonic() < deadline, f"waited in vain for {what}")
        time.sleep(0.02)


def start(method, *more):
    words = ["--cli", "--config", str(config), "--server", "fz", "--protocol-era", plan["era"], "--format", "json"]
    return subprocess.Popen(
        [*plan["inspector"], *words, "--method", method, *more],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )


def inspect(status, method, *more):
    """Runs one command that must end with `status`, and answers what it printed."""
    process = start(method, *more)
    try:
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    sys.stderr.write(err)
    expect(process.returncode == status, f"exit status {process.returncode}: {out}{err}")
    return json.loads(out)["result"]


def call(status, tool, arguments):
    return inspect(status, "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))


def alive():
    """The processes of the server: all that it starts is started by a path inside the directory of this walk."""
    table = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,stat=,args="], capture_output=True, text=True, check=True)
    rows = (line.split(None, 2) for line in table.stdout.splitlines())
    return [row for row in rows if len(row) == 3 and row[1][0] != "Z" and plan["root"] in row[2]]


def connect():
    found = inspect(0, "initialize")
    say(revision=found["protocolVersion"])
    expect(found["protocolVersion"] == plan["revision"], found)
    expect(found["serverInfo"]["name"] == "fz-mcp", found)


def listing():
    found = [tool["name"] for tool in inspect(0, "tools/list")["tools"]]
    expect(found == plan["tools"], found)


def succeed():
    found = call(0, "fz_plan", {})
    expect(found["content"][0]["text"] == plan["expected"], "the text is not what fz prints when it is run by hand")
    expect(found["structuredContent"] == json.loads(plan["expected"]), "text and structured content differ")


def refusal(tool, arguments, code):
    found = call(5, tool, arguments)
    expect(found["isError"] is True, found)
    expect(json.loads(found["content"][0]["text"]) == found["structuredContent"], "text and structured content differ")
    expect(found["structuredContent"]["failures"][0]["code"] == code, found)


def close():
    inspect(0, "tools/list")
    until("the end of every process", lambda: not alive())


def abandon():
    process = start("tools/call", "--tool-name", "fz_verify", "--tool-args-json", "{}")
    try:
        until("the child and its helper", lambda: process.poll() is not None or all(
            (marks / name).exists() for name in ["leader", "helper"]))
        expect(process.poll() is None, "the call ended early")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    until("the end of every process", lambda: not alive())


for name, body in [
    ("connect", connect),
    ("list", listing),
    ("succeed", succeed),
    ("refuse", lambda: refusal("fz_deploy", {}, "deploy-plan-required")),
    ("argument", lambda: refusal("fz_plan", {"manifest": 7}, "mcp-argument-invalid")),
    ("close", close),
    ("abandon", abandon),
]:
    try:
        body()
        say(check=name, ok=True)
    except Exception as error:
        say(check=name, ok=False, why=f"{type(error).__name__}: {error}")
