//! Clusters of `guira store`, which several nodes make, with a real etcd, and the routers in front of them.

mod crowded;
mod dev;
mod hot_tls;
mod hung;
mod kubernetes;
mod operator;
mod register;
mod restart;
mod router;
mod router_hot;
mod store;
mod tls;
mod views;
