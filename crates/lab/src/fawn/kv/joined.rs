//! A cluster whose nodes join by themselves: their controller deals the slots.

use super::placed::{NAME, wait, within};
use crate::live::{Client, Router, free_ports};
use crate::measure::now;
use anyhow::{Context, Result, anyhow, ensure};
use guira_chain::{NodeId, SLOTS, View};
use guira_cluster::{EtcdArgs, Parts, Register, first_view, lacks};
use serde_json::json;
use std::process::Command;
use std::time::Duration;

/// See the module's head. All processes end with it.
pub(super) struct Joined {
    parts: Parts,
    register: Register,
    place: String,
    nodes: usize,
    copies: u32,
    directory: tempfile::TempDir,
}

impl Joined {
    /// Starts so many nodes and a router, and waits until the controller has nothing left to do.
    pub(super) fn start(nodes: usize, copies: u32) -> Result<(Self, Router)> {
        let directory = tempfile::tempdir()?;
        let mut parts = Parts::new(directory.path());
        let etcd = free_ports(2)?;
        parts.start_etcd([etcd[0], etcd[1]]).map_err(|words| anyhow!(words))?;
        let place = format!("127.0.0.1:{}/{NAME}", etcd[0]);
        let register = EtcdArgs::default().register(&format!("etcd:{place}"));
        let register = register.map_err(|words| anyhow!(words))?;
        let view = first_view(NAME, copies, copies.min(2)).map_err(|words| anyhow!(words))?;
        within("etcd takes the view", || register.create(&view).map_err(Into::into))?;
        let config = json!({ "route": { "type": "ClusterRoute", "etcd": place } });
        let router = Router::start(&config, &[])?;
        let mut joined = Self { parts, register, place, nodes: 0, copies, directory };
        for _ in 0..nodes {
            joined.add()?;
        }
        joined.until_still(|_| true)?;
        let probe = || {
            let mut client = Client::connect(router.port)?;
            for number in 0..PROBES {
                ensure!(client.set(&format!("probe-{number}"), 1)?, "the router doesn't store yet");
            }
            Ok(())
        };
        within("the router stores", probe)?;
        Ok((joined, router))
    }

    /// Starts one more node. Returns its name.
    pub(super) fn add(&mut self) -> Result<String> {
        self.nodes += 1;
        let name = format!("n{}", self.nodes);
        let ports = free_ports(2)?;
        let program = std::env::current_exe().context("the path of this program")?;
        let mut command = Command::new(program);
        command
            .args(["store", "--cluster", &format!("etcd:{}", self.place), "--name", &name])
            .args(["-p", &ports[0].to_string(), "--peers", &format!("127.0.0.1:{}", ports[1])])
            .args(["--durability", "os", "-t", "1", "--read-threads", "1", "-d"])
            .arg(self.directory.path().join(&name));
        self.parts.start(&name, command).map_err(|words| anyhow!(words))?;
        Ok(name)
    }

    /// Kills a node, as by kill -9.
    pub(super) fn kill(&mut self, name: &str) {
        self.parts.kill(name);
        self.nodes -= 1;
    }

    /// Waits until each slot has its copies, the view is as wanted, and there was no other for a while.
    pub(super) fn until_still(&mut self, is_wanted: impl Fn(&View) -> bool) -> Result<()> {
        let (register, nodes) = (&self.register, self.nodes);
        let mut last = (0, now());
        let not_still = || {
            if let Some(lack) = lacks(register, nodes)? {
                return Ok(Some(lack));
            }
            let Ok(seen) = register.view() else { return Ok(Some("etcd doesn't answer".into())) };
            if seen.view.epoch != last.0 {
                last = (seen.view.epoch, now());
            }
            let is_still = last.1.elapsed() > STILL && is_wanted(&seen.view);
            Ok((!is_still).then(|| "slots still move".to_owned()))
        };
        wait(&mut self.parts, not_still)
    }

    /// The part of an equal share of all copies that a node serves; 0 if the view doesn't know it.
    pub(super) fn share(&self, name: &str) -> Result<f64> {
        Ok(share(&self.register.view()?.view, name, self.nodes, self.copies))
    }

    /// Whether a node serves at least so much of an equal share.
    pub(super) fn has_share(&mut self, name: &str, least: f64) -> Result<()> {
        let (nodes, copies) = (self.nodes, self.copies);
        self.until_still(|view| share(view, name, nodes, copies) >= least)
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.parts.kill_all();
    }
}

fn share(view: &View, name: &str, nodes: usize, copies: u32) -> f64 {
    let named = |it: &(&NodeId, &guira_chain::Member)| it.1.name == name;
    let Some((id, _)) = view.nodes.iter().find(named) else { return 0.0 };
    let own = view.groups.iter().filter(|group| group.serving.contains(id));
    let own: usize = own.map(|group| group.slots.len()).sum();
    own as f64 * nodes as f64 / (f64::from(SLOTS) * f64::from(copies))
}

/// A view that stays for so long is the last one.
const STILL: Duration = Duration::from_secs(2);
const PROBES: usize = 64;
