//! What `guira cluster --help` says.

pub(super) const ABOUT: &str =
    "Make a cluster of stores in etcd, show and check it, move slots away from a node";
pub(super) const INIT: &str = "Make a cluster in etcd, to which no node belongs yet";
pub(super) const STATUS: &str =
    "Tell what etcd knows of a cluster: nodes, copies that are missing, who leads";

pub(super) const DEV: &str =
    "Start etcd, nodes and a router on this machine, to learn and to test with";
pub(super) const RESCUE: &str =
    "Put back what etcd has lost, from the copies of the view in nodes' directories";
pub(super) const PLAN: &str = "Show what the controller does next, and why";
pub(super) const CHECK: &str =
    "Look for what is wrong: etcd, nodes, copies, promises, clocks, versions; and say what helps";
pub(super) const DRAIN: &str =
    "Move all copies away from a node, while it serves; then it may be stopped";
pub(super) const RESTART: &str =
    "Have a node leave its chains before it is stopped for a while, and wait for that";
pub(super) const SET: &str = "Change the number of copies, or pause what moves copies";

pub(super) const EXAMPLES: &str = "\
Examples:
  guira cluster init etcd:127.0.0.1:2379/c1           make the cluster c1, with three copies of all
  guira cluster status etcd:127.0.0.1:2379/c1         its nodes, their slots, and what is degraded
  guira cluster check etcd:127.0.0.1:2379/c1          what is wrong with it, and what helps
  guira cluster plan etcd:127.0.0.1:2379/c1           what happens next, and why
  guira cluster drain etcd:127.0.0.1:2379/c1 ibis     move all copies away from the node ibis
  guira cluster restart etcd:127.0.0.1:2379/c1 ibis   have others serve before ibis is restarted
  guira cluster rescue etcd:127.0.0.1:2379/c1 DIR     put back what etcd has lost, from a node's directory
  guira cluster dev --nodes 5                         five nodes, etcd and a router, here and now

Copies, heads and readers are spread over the nodes by their --weight without a command: a node that starts gets its share.";

pub(super) const INIT_EXAMPLES: &str = "\
Examples:
  guira cluster init etcd:127.0.0.1:2379/c1               three copies, two needed for a write
  guira cluster init etcd:10.0.0.1:2379,10.0.0.2:2379/c1 --replicas 2 --min-write 1
                                                          two copies; one is enough, an etcd of two members to ask";

pub(super) const DEV_EXAMPLES: &str = "\
Examples:
  guira cluster dev                          three nodes in ./guira-dev; a router on port 21300
  guira cluster dev --nodes 5 -d /tmp/birds  five nodes, each item on three of them

Any memcached client may ask the router. Each part is a process of its own: kill one, and see what happens. Ctrl-C ends all, and \
the same command goes on with the same items. etcd must be installed (Debian: etcd-server).";

pub(super) const STATUS_EXAMPLES: &str = "\
Examples:
  guira cluster status etcd:127.0.0.1:2379/c1                         for people
  guira cluster status etcd:127.0.0.1:2379/c1 --json | jq .slots      for programs

A slot is degraded while fewer of its copies live than are wanted, and read-only while they are too few for a write. A node is a \
member once the view names its process, waiting if it lives and isn't named, gone if it hasn't renewed its lease. A node that isn't in \
etcd is asked itself: keyless is one that serves. A stranger is somebody else who answers at the address of one that is gone.";

pub(super) const PLAN_EXAMPLES: &str = "\
Examples:
  guira cluster plan etcd:127.0.0.1:2379/c1                           for people
  guira cluster plan etcd:127.0.0.1:2379/c1 --json | jq .copies       how much is to be copied

The controller is the node that leads. It changes the view by itself: this command changes nothing. What stands below next happens \
with the next view, what stands below now is under way or waits. A node that is filled gets its copy from the chain's reader. It \
acknowledges writes once it is filled, and serves once it has all that the reader has.";

pub(super) const CHECK_EXAMPLES: &str = "\
Examples:
  guira cluster check etcd:127.0.0.1:2379/c1                          for people
  guira cluster check etcd:127.0.0.1:2379/c1 --json | jq .findings    for programs

Each finding has a line that says what helps. The exit code is 3 if something was found, 0 if not. All endpoints of etcd that you name \
are asked, and each node over its clients' port; one behind TLS or logins can't be asked, which is a finding too.";

pub(super) const DRAIN_EXAMPLES: &str = "\
Examples:
  guira cluster drain etcd:127.0.0.1:2379/c1 ibis                     its copies move to other nodes
  guira cluster drain etcd:127.0.0.1:2379/c1 ibis --wait 600          and come back once it has none
  guira cluster drain etcd:127.0.0.1:2379/c1 ibis --undo              it gets its share again

A copy leaves once as many others serve as are wanted, so no slot has fewer copies meanwhile, and clients see no errors. As many other \
nodes must live as there are to be copies. A drained node stays drained until --undo, also over a restart.";

pub(super) const RESTART_EXAMPLES: &str = "\
Examples:
  guira cluster restart etcd:127.0.0.1:2379/c1 ibis             once it is done, ibis may be stopped
  guira cluster restart etcd:127.0.0.1:2379/c1 ibis --wait 60   give up after a minute: exit code 3
  guira cluster restart etcd:127.0.0.1:2379/c1 ibis --undo      it stays after all

It waits until each of the node's slots has all its other copies, and until others serve without the node. So nodes can be restarted \
one after the other: the command for the next one waits until the last one is filled. The node passes on what its clients ask until \
it is stopped. Nothing is copied elsewhere, unless it is away for ten minutes.";

pub(super) const SET_EXAMPLES: &str = "\
Examples:
  guira cluster set etcd:127.0.0.1:2379/c1 --replicas 2      two copies of each slot from now on
  guira cluster set etcd:127.0.0.1:2379/c1 --pause           for work on the network: copy nothing
  guira cluster set etcd:127.0.0.1:2379/c1 --resume

While it is paused, nodes that die still leave their chains, and slots go on with the copies that are left.";

pub(super) const RESCUE_EXAMPLES: &str = "\
Examples:
  guira cluster rescue etcd:127.0.0.1:2379/c1 /var/lib/guira-store   a node's directory
  guira cluster rescue etcd:127.0.0.1:2379/c1 ibis.json coot.json    copies of view.json from nodes' directories

Each node keeps the newest view that it knows as view.json in its directory. The newest of all nodes' copies is the right one: name \
those of as many nodes as you can. A view that is in etcd is never replaced.";
