"""The tools of fz-mcp on the Python SDK: each call spawns `fz --json` and passes its object on."""

import functools
import json
import subprocess
import sys
from pathlib import Path

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

DATA, CWD, FZ = sys.argv[1:]


@functools.cache
def tools():
    return types.ListToolsResult.model_validate_json((Path(DATA) / "tools.json").read_bytes())


@functools.cache
def codes():
    return (Path(DATA) / "codes.json").read_text()


def result(text):
    envelope = json.loads(text)
    content = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=content, structured_content=envelope, is_error=not envelope["ok"])


def argv(name, arguments):
    verb = name.removeprefix("fz_").replace("_", "-")
    words = [verb, "--json"]
    if verb not in ("doctor", "client-ts"):
        words.append("--non-interactive")
    for key, value in arguments.items():
        flag = "--" + key.replace("_", "-")
        if isinstance(value, str) and key != "module":
            words.append(f"{flag}={value}")
        elif value is True:
            words.append(flag)
    return [*words, "--", arguments["module"]] if "module" in arguments else words


async def list_tools(_context, _params):
    return tools()


async def call_tool(_context, params):
    if params.name == "fz_error_codes":
        return result(codes())
    words = [FZ, *argv(params.name, params.arguments or {})]
    done = await anyio.run_process(words, cwd=CWD, check=False, stdin=subprocess.DEVNULL)
    return result(done.stdout.decode().removesuffix("\n"))


async def main():
    server = Server("peer", version="1.0.0", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


anyio.run(main)
