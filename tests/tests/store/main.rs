//! `guira store` by itself: one node, the real binary over real sockets.

mod full;
mod keep;
mod opening;
mod operator;
mod wire;
