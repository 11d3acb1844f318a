import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { walk } from "./walk.mjs";

await walk(({ server: [command, ...args] }) => {
  const transport = new StdioClientTransport({ command, args });
  const client = new Client({ name: "walk", version: "1.0.0" });
  let revision;
  // Version 1 hands the revision to the transport and shows it nowhere else.
  transport.setProtocolVersion = (version) => { revision = version; };
  return {
    client,
    transport,
    connect: () => client.connect(transport),
    revision: () => revision,
    call: (name, given, options) => client.callTool({ name, arguments: given }, undefined, options),
    close: () => client.close(),
  };
});
