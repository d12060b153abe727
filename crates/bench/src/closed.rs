//! The closed loop: a connection sends its next pipeline when the last one is answered.
//!
//! Latency is measured from the send of the pipeline to the reply of each request. A server that stalls
//! also delays the requests that would have noticed the stall (coordinated omission). To measure latency
//! under a given load, use the open loop.

use std::time::Duration;

use crate::address::ServerAddress;
use crate::connection::{Connection, Poller};
use crate::crew::{Tally, Watch};
use crate::error::BenchError;
use crate::plan::Plan;

/// Does the work of thread `thread`.
pub(crate) fn run(
    plan: &Plan,
    address: &ServerAddress,
    thread: usize,
    watch: &Watch,
) -> Result<Tally, BenchError> {
    let mut connections = plan
        .lanes_of(thread)
        .map(|lane| Connection::open(plan, address, lane))
        .collect::<Result<Vec<_>, _>>()?;
    let mut poller = Poller::new(&connections)?;
    let mut quota = plan.quota_of(thread);
    let mut tally = Tally::default();
    let mut operations = 0;
    watch.ready();
    for connection in &mut connections {
        send(connection, &mut quota, watch)?;
    }
    while !watch.is_over() {
        for place in poller.wait(WAKE)? {
            let connection = &mut connections[place];
            connection.flush()?;
            operations += connection.tally(watch, &mut tally)?;
            if connection.asked.requests.is_empty() {
                send(connection, &mut quota, watch)?;
            }
        }
        watch.report(thread, operations);
        if quota == 0 && connections.iter().all(|it| it.asked.requests.is_empty()) {
            break;
        }
    }
    Ok(tally)
}

fn send(connection: &mut Connection, quota: &mut u64, watch: &Watch) -> Result<(), BenchError> {
    if *quota == 0 {
        return Ok(());
    }
    connection.send_batch(watch.clock.now_ns())?;
    *quota = quota.saturating_sub(connection.asked.requests.len() as u64);
    Ok(())
}

/// The longest sleep of a thread before it checks whether the run is over.
const WAKE: Duration = Duration::from_millis(10);
