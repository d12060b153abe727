//! The view that a cluster begins with.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use guira_chain::{Group, Member, Ranges, SLOTS, View};
use rustix::rand::{GetRandomFlags, getrandom};

/// The view of a cluster to which no process belongs yet. All slots are node 1's, and the first node that asks for a number
/// gets that one.
///
/// # Errors
/// A sentence: the system has no random numbers.
pub fn first_view(cluster: &str, replicas: u32, min_write: u32) -> Result<View, String> {
    let mut seed = [0; 16];
    let read = getrandom(&mut seed, GetRandomFlags::empty());
    if read.map_err(|error| format!("no random seed: {error}"))? != seed.len() {
        return Err("no random seed".to_owned());
    }
    let nobody = Member {
        name: String::new(),
        peers: String::new(),
        clients: String::new(),
        zone: String::new(),
        weight: 1,
        run: String::new(),
    };
    let all = Group { slots: Ranges::of(0, SLOTS), epoch: 1, serving: vec![1], ..Group::default() };
    Ok(View {
        format: 1,
        cluster: cluster.to_owned(),
        epoch: 1,
        seed: STANDARD.encode(seed),
        replicas,
        min_write,
        nodes: [(1, nobody)].into(),
        groups: vec![all],
    })
}
