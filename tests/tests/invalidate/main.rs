//! `guira invalidate`: behind real databases, in front of real routers and servers.

mod audit;
mod check;
mod churn;
mod failover;
mod large;
mod liar;
mod mariadb;
mod mysql;
mod postgres;
mod prepared;
mod regions;
mod reload;
mod replay;
mod replica;
mod reset;
mod server_id;
mod spread;
mod takeover;
mod tls;
mod unknown;
