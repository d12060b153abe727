// memjs, which speaks binary: the usual operations, each with the answer that it must give.
'use strict';
const memjs = require('memjs');
const client = memjs.Client.create(process.argv[2], {
  timeout: 10,
  retries: 1,
  logger: { log() {} },
});
let passed = 0;
let failed = 0;

function check(what, got, want) {
  if (JSON.stringify(got) === JSON.stringify(want)) {
    passed += 1;
  } else {
    failed += 1;
    console.log(`  memjs: ${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
  }
}

async function text(key) {
  const { value } = await client.get(key);
  return value && value.toString();
}

async function main() {
  check('flush', Object.values(await client.flush()).length, 1);
  check('set', await client.set('j:a', 'one', { expires: 100 }), true);
  check('get', await text('j:a'), 'one');
  check('get of nothing', await text('j:none'), null);
  check('add on something', await client.add('j:a', 'x', {}), false);
  check('add', await client.add('j:b', 'x', {}), true);
  check('replace', await client.replace('j:a', 'two', {}), true);
  check('replace of nothing', await client.replace('j:none', 'two', {}), false);
  check('append', await client.append('j:a', '+'), true);
  const appended = await client.append('j:none', '+').catch((error) => error.message);
  check('append to nothing', appended, 'MemJS APPEND: Item not stored');
  // Its prepend sends the opcode of append, so it proves nothing.
  check('get after', await text('j:a'), 'two+');
  check('touch', await client.touch('j:a', 100), true);
  check('touch of nothing', await client.touch('j:none', 100), false);
  check('increment creates', (await client.increment('j:n', 5, { initial: 40 })).value, 40);
  check('increment', (await client.increment('j:n', 5, { initial: 40 })).value, 45);
  check('decrement', (await client.decrement('j:n', 100, { initial: 1 })).value, 0);
  const bytes = Buffer.alloc(500000, 7);
  check('set buffer', await client.set('j:buffer', bytes, {}), true);
  const back = (await client.get('j:buffer')).value;
  check('get buffer', Buffer.isBuffer(back) && back.equals(bytes), true);
  const sets = Array.from({ length: 500 }, (_, n) => client.set(`j:m${n}`, `v${n}`, {}));
  check('500 sets at once', (await Promise.all(sets)).every((ok) => ok === true), true);
  const gets = Array.from({ length: 500 }, (_, n) => text(`j:m${n}`));
  check('500 gets at once', (await Promise.all(gets)).every((v, n) => v === `v${n}`), true);
  check('delete', await client.delete('j:a'), true);
  check('delete again', await client.delete('j:a'), false);
  const stats = await new Promise((resolve) => {
    client.stats((error, server, all) => resolve(error || all));
  });
  check('stats', Number(stats.curr_items) >= 500, true);
  client.close();
  console.log(`memjs: ${passed} passed, ${failed} failed`);
  process.exitCode = failed ? 1 : 0;
}

main().catch((error) => {
  console.log(`memjs: ${error.stack}`);
  process.exit(1);
});
