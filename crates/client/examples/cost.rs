//! Measures the processor time of a get in the client: `cost ADDRESS CONNECTIONS TASKS SECONDS [VALUE_BYTES]`.
//!
//! Each task gets one key after another; the tasks are spread over the connections. All run on one thread, and the
//! kernel counts its time. The program prints gets per second and microseconds per get.

use std::error::Error;
use std::time::Duration;

use guira_client::{Connection, ConnectionOptions, Op, Outcome, Request};
use tokio::time::Instant;

const KEYS: usize = 1000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, connections, tasks, seconds, rest @ ..] = &words[..] else {
        return Err("cost ADDRESS CONNECTIONS TASKS SECONDS [VALUE_BYTES]".into());
    };
    let value_bytes = rest.first().map_or(Ok(100), |bytes| bytes.parse())?;
    let connections: Vec<Connection> = (0..connections.parse::<usize>()?)
        .map(|_| Ok(Connection::new(address.parse()?, ConnectionOptions::default())))
        .collect::<Result<_, Box<dyn Error>>>()?;
    let keys: Vec<bytes::Bytes> = (0..KEYS).map(|n| format!("cost:key:{n:08}").into()).collect();
    for key in &keys {
        let value = vec![b'v'; value_bytes].into();
        let set = Request { value, ..Request::new(Op::Set, key.clone()) };
        let reply = connections[0].ask(set, Instant::now() + Duration::from_secs(1)).await;
        assert_eq!(reply.outcome, Outcome::Stored, "{reply:?}");
    }
    let end = Instant::now() + Duration::from_secs(seconds.parse()?);
    let (began, busy) = (Instant::now(), thread_time()?);
    let tasks: Vec<_> = (0..tasks.parse::<usize>()?)
        .map(|task| {
            let connection = connections[task % connections.len()].clone();
            let mut keys = keys.clone();
            keys.rotate_left(task * 37 % KEYS);
            tokio::spawn(async move {
                let mut gets = 0u32;
                for key in keys.iter().cycle() {
                    let now = Instant::now();
                    if now > end {
                        break;
                    }
                    let get = Request::new(Op::Get, key.clone());
                    let reply = connection.ask(get, now + Duration::from_secs(1)).await;
                    assert_eq!(reply.outcome, Outcome::Found);
                    gets += 1;
                }
                gets
            })
        })
        .collect();
    let mut gets = 0.0;
    for task in tasks {
        gets += f64::from(task.await?);
    }
    let (rate, cost) = (gets / began.elapsed().as_secs_f64(), (thread_time()? - busy) * 1e6 / gets);
    println!("{rate:.0} gets/s, {cost:.2} us of processor time a get");
    Ok(())
}

/// Returns how long this thread has run, in seconds, as the kernel counts it.
fn thread_time() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds: f64 = stat.split(' ').next().ok_or("no schedstat")?.parse()?;
    Ok(nanoseconds / 1e9)
}
