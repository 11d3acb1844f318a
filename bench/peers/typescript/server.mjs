// The tools of fz-mcp on the TypeScript SDK: each call spawns `fz --json` and passes its object on.

import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';

import { Server } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const [data, cwd, fz] = process.argv.slice(2);
const kept = new Map();

function read(name) {
  if (!kept.has(name)) kept.set(name, readFileSync(`${data}/${name}`, 'utf8'));
  return kept.get(name);
}

function result(text) {
  const envelope = JSON.parse(text);
  return { content: [{ type: 'text', text }], structuredContent: envelope, isError: !envelope.ok };
}

function argv(name, args) {
  const verb = name.slice('fz_'.length).replaceAll('_', '-');
  const words = [verb, '--json'];
  if (!['doctor', 'client-ts'].includes(verb)) words.push('--non-interactive');
  for (const [key, value] of Object.entries(args)) {
    const flag = `--${key.replaceAll('_', '-')}`;
    if (typeof value === 'string' && key !== 'module') words.push(`${flag}=${value}`);
    else if (value === true) words.push(flag);
  }
  return args.module === undefined ? words : [...words, '--', args.module];
}

function run(words) {
  return new Promise((resolve, reject) => {
    const child = execFile(fz, words, { cwd, maxBuffer: 3 * 1024 * 1024 }, (error, stdout) => {
      // fz reports failures by its exit status and in the envelope: only a child that printed none is an error here.
      if (error && !stdout) reject(error);
      else resolve(stdout.replace(/\n$/, ''));
    });
    child.stdin.end();
  });
}

serveStdio(() => {
  const server = new Server({ name: 'peer', version: '1.0.0' }, { capabilities: { tools: {} } });
  server.setRequestHandler('tools/list', () => {
    if (!kept.has('parsed')) kept.set('parsed', JSON.parse(read('tools.json')));
    return kept.get('parsed');
  });
  server.setRequestHandler('tools/call', async ({ params }) => {
    if (params.name === 'fz_error_codes') return result(read('codes.json'));
    return result(await run(argv(params.name, params.arguments ?? {})));
  });
  return server;
});
