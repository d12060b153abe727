//! Jump consistent hashing (Lamping and Veach, 2014): computes the numbers of servers at which the key would have
//! moved.
//!
//! Adding a server at the end takes its share from all others and moves nothing else. No server can leave the middle.
//!
//! # Costs
//! On average ln(servers) steps, each with a division. It takes no memory.

/// Returns the server of the key with this hash among `servers`, or 0 if there are none.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the paper's arithmetic, which stays below the number of servers"
)]
pub(super) fn jump(hash: u64, servers: usize) -> usize {
    let (mut state, mut server, mut next) = (hash, 0, 0);
    while next < servers {
        server = next;
        state = state.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let scale = (1u64 << 31) as f64 / ((state >> 33) + 1) as f64;
        next = ((server + 1) as f64 * scale) as usize;
    }
    server
}
