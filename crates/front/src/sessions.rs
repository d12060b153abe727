//! Client connections of a program on tokio: accepting them, letting them in, reading requests and writing replies.
//!
//! A program has one [`Clients`], one [`Dealer`] and, on each of its threads, a [`Sessions`] over that thread's own
//! [`Service`]. Everything that is held for a client is counted in bytes, against one budget of the process: see [`Bank`].

mod http_port;
mod accepting;
mod listener;
mod serving;
mod session;
mod thread;
mod entrance;
mod lifecycle;
mod clients;
mod lanes;
mod line;
mod keys;
mod meta;
mod answer;
mod owner;
mod refusals;
mod logins;
mod stream;
mod service;
mod manners;
mod memory;
mod yielding;

pub use accepting::{Accepting, accept_all, accept_apart};
pub use clients::{ClientLimits, Clients};
pub use http_port::{open as open_http, open_beside as open_http_beside, start as start_http};
pub use lifecycle::Lifecycle;
pub use line::first as first_request;
pub use listener::{Dealer, ListenOptions, Listening, Places, open, reserve, tell, tell_ready};
pub use logins::{Logins, User};
pub use manners::{AsRouter, AsServer, Manners, NOREPLY};
pub use memory::{Bank, MemoryLimits};
pub use owner::ShutdownFrom;
pub use refusals::Refusals;
pub use service::{Answer, ClientTap, Feed, KEY_BYTES, Listing, Service, Start};
pub use serving::{drain, serve};
pub use stream::Arrival;
pub use thread::Sessions;
