// The usual operations of the npm package memcached, each with the answer that it must give.
'use strict';
const Memcached = require('memcached');
const client = new Memcached(process.argv[2], { timeout: 10000, retries: 1, poolSize: 4 });
let passed = 0;
let failed = 0;

function check(what, got, want) {
  if (JSON.stringify(got) === JSON.stringify(want)) {
    passed += 1;
  } else {
    failed += 1;
    console.log(`  node memcached: ${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
  }
}

// What a call gives, or the word of its error.
function call(method, ...args) {
  return new Promise((resolve) => {
    client[method](...args, (error, data) => resolve(error ? `error: ${error.message}` : data));
  });
}

async function main() {
  check('flush', (await call('flush'))[0], true);
  check('set', await call('set', 'n:a', 'one', 100), true);
  check('get', await call('get', 'n:a'), 'one');
  check('get of nothing', await call('get', 'n:none'), undefined);
  check('add on something', await call('add', 'n:a', 'x', 100), 'error: Item is not stored');
  check('add', await call('add', 'n:b', 'x', 100), true);
  check('replace', await call('replace', 'n:a', 'two', 100), true);
  check('append', await call('append', 'n:a', '+'), true);
  check('prepend', await call('prepend', 'n:a', '-'), true);
  check('get after', await call('get', 'n:a'), '-two+');
  check('set object', await call('set', 'n:o', { a: [1, 2] }, 100), true);
  check('get object', await call('get', 'n:o'), { a: [1, 2] });
  check('set number', await call('set', 'n:n', 42, 100), true);
  check('get number', await call('get', 'n:n'), 42);
  check('incr', await call('incr', 'n:n', 8), 50);
  check('decr', await call('decr', 'n:n', 49), 1);
  check('incr of nothing', await call('incr', 'n:none', 1), false);
  check('get multi', await call('getMulti', ['n:b', 'n:none', 'n:n']), { 'n:b': 'x', 'n:n': 1 });
  const seen = await call('gets', 'n:b');
  check('gets', seen['n:b'], 'x');
  check('cas', await call('cas', 'n:b', 'y', seen.cas, 100), true);
  check('cas again', await call('cas', 'n:b', 'z', seen.cas, 100), false);
  check('touch', await call('touch', 'n:b', 100), true);
  check('del', await call('del', 'n:b'), true);
  check('del again', await call('del', 'n:b'), false);
  const bytes = Buffer.alloc(200000, 7);
  check('set buffer', await call('set', 'n:buffer', bytes, 100), true);
  const back = await call('get', 'n:buffer');
  check('get buffer', Buffer.isBuffer(back) && back.equals(bytes), true);
  const version = await call('version');
  check('version', typeof version[0].version, 'string');
  const stats = await call('stats');
  if (process.env.ROUTER) {
    check('stats of a router', stats[0].cmd_get_count >= 3, true);
  } else {
    check('stats', stats[0].curr_items >= 3, true);
    const settings = await call('settings');
    check('settings', settings[0].maxconns > 0, true);
    check('slabs', Object.keys((await call('slabs'))[0]).length > 1, true);
    check('items', Array.isArray(await call('items')), true);
  }
  const sets = Array.from({ length: 500 }, (_, n) => call('set', `n:m${n}`, `v${n}`, 100));
  check('500 sets at once', (await Promise.all(sets)).every((ok) => ok === true), true);
  const many = await call('getMulti', Array.from({ length: 500 }, (_, n) => `n:m${n}`));
  check('500 keys in one get', Object.keys(many).length, 500);
  client.end();
  console.log(`node memcached: ${passed} passed, ${failed} failed`);
  process.exitCode = failed ? 1 : 0;
}

main();
