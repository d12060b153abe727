//! Jump consistent hashing (Lamping and Veach, 2014): follows the moments at which the key would have moved.
//!
//! A server added at the end takes its share from all others and moves nothing else; none can leave the middle.
//!
//! # Costs
//! ln(servers) steps of a division each, on average; no memory.

/// The server of the key with this hash among `servers`; 0 if there is none.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the paper's arithmetic, which stays below the number of servers"
)]
pub fn jump(hash: u64, servers: usize) -> usize {
    let (mut state, mut server, mut next) = (hash, 0, 0);
    while next < servers {
        server = next;
        state = state.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let scale = (1u64 << 31) as f64 / ((state >> 33) + 1) as f64;
        next = ((server + 1) as f64 * scale) as usize;
    }
    server
}
