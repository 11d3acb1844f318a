import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { walk } from "./walk.mjs";

await walk(({ server: [command, ...args], era }) => {
  const transport = new StdioClientTransport({ command, args });
  const client = new Client({ name: "walk", version: "1.0.0" }, { versionNegotiation: { mode: era } });
  return {
    client,
    transport,
    connect: () => client.connect(transport),
    revision: () => client.getNegotiatedProtocolVersion(),
    call: (name, given, options) => client.callTool({ name, arguments: given }, options),
    close: () => client.close(),
  };
});
