#!/usr/bin/env node
// Finds the fz-mcp of this operating system and cpu, which npm installed beside this package, and becomes it as far as
// a parent can tell: its stdio, its signals, its exit. It installs nothing and downloads nothing.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const platform = `${process.platform}-${process.arch}`;
const program = process.platform === "win32" ? "fz-mcp.exe" : "fz-mcp";

function locate() {
  try {
    return require.resolve(`@cratefield/fz-mcp-${platform}/bin/${program}`);
  } catch {
    console.error(
      `fz-mcp: the package @cratefield/fz-mcp-${platform} is not installed. Either ${platform} has no release, or npm was ` +
        "told to omit optional dependencies: install again without --omit=optional, or see " +
        "https://github.com/Cratefield/fz-mcp for the other ways to install",
    );
    process.exit(1);
  }
}

// A listener keeps Node from dying of the signal before the server has stopped what it started. It is there before the
// server is, so that no moment is left in which the signal would end Node alone.
const signals = process.platform === "win32" ? ["SIGINT", "SIGBREAK"] : ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"];
for (const signal of signals) {
  // Windows sends a console event to the server as well; killing it there would cut its shutdown short.
  process.on(signal, () => process.platform === "win32" || child.kill(signal));
}

const child = spawn(locate(), process.argv.slice(2), { stdio: "inherit" });

child.on("error", (error) => {
  console.error(`fz-mcp: could not start the server: ${error.message}`);
  process.exit(1);
});

child.on("exit", (code, signal) => {
  if (signal === null) {
    process.exit(code);
  }
  for (const name of signals) {
    process.removeAllListeners(name);
  }
  process.kill(process.pid, signal);
  // Reached where the signal cannot end this process: the shell's way of telling the same.
  setTimeout(() => process.exit(128 + (constants.signals[signal] ?? 0)), 1000);
});
