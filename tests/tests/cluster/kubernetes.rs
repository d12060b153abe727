//! The manifests for Kubernetes: they fit together, name only what the program has, and their commands make a cluster of real
//! processes.

use guira_tests::client::Client;
use guira_tests::etcd::Etcd;
use guira_tests::metrics::get_http;
use guira_tests::server::{
    Address, Program, Server, accepts, free_port, guira, own_directory, within, workspace,
};
use guira_tests::tls::Authority;
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use yaml_rust2::{Yaml, YamlLoader};

const PROGRAM: &str = "/usr/local/bin/guira";
const FILES: [&str; 3] = ["init.yaml", "nodes.yaml", "routers.yaml"];

fn documents() -> Vec<Yaml> {
    let read = |name: &&str| {
        let path = workspace().join("packaging/kubernetes").join(name);
        let text = fs::read_to_string(&path).expect("a manifest");
        YamlLoader::load_from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    FILES.iter().flat_map(read).collect()
}

/// The documents of a kind.
fn of_kind<'a>(all: &'a [Yaml], kind: &str) -> Vec<&'a Yaml> {
    all.iter().filter(|it| it["kind"].as_str() == Some(kind)).collect()
}

fn text(yaml: &Yaml) -> &str {
    yaml.as_str().unwrap_or_else(|| panic!("a text: {yaml:?}"))
}

fn list(yaml: &Yaml) -> &[Yaml] {
    yaml.as_vec().map(Vec::as_slice).unwrap_or_default()
}

fn words(yaml: &Yaml) -> Vec<String> {
    list(yaml).iter().map(|it| text(it).to_owned()).collect()
}

/// What runs in pods: the template of each, with the labels of its pods.
struct Pods<'a> {
    owner: &'a Yaml,
    labels: &'a Yaml,
    spec: &'a Yaml,
    container: &'a Yaml,
}

impl<'a> Pods<'a> {
    fn all(documents: &'a [Yaml]) -> Vec<Self> {
        let kinds = ["Job", "StatefulSet", "Deployment"];
        let owners = kinds.iter().flat_map(|kind| of_kind(documents, kind));
        owners
            .map(|owner| {
                let template = &owner["spec"]["template"];
                let spec = &template["spec"];
                assert_eq!(list(&spec["containers"]).len(), 1, "{owner:?}");
                let container = &spec["containers"][0];
                Self { owner, labels: &template["metadata"]["labels"], spec, container }
            })
            .collect()
    }

    fn of(documents: &'a [Yaml], kind: &str) -> Self {
        let mut found = Self::all(documents);
        found.retain(|it| it.owner["kind"].as_str() == Some(kind));
        found.pop().expect("one of the kind")
    }

    /// The command of the container, and that of its end: words of `guira`.
    fn commands(&self) -> Vec<Vec<String>> {
        assert_eq!(words(&self.container["command"]), [PROGRAM]);
        let ends = words(&self.container["lifecycle"]["preStop"]["exec"]["command"]);
        let ends = ends.split_first().map(|(program, words)| {
            assert_eq!(program, PROGRAM);
            words.to_vec()
        });
        [words(&self.container["args"])].into_iter().chain(ends).collect()
    }

    fn port(&self, name: &str) -> Option<i64> {
        let ports = list(&self.container["ports"]);
        ports.iter().find(|it| it["name"].as_str() == Some(name))?["containerPort"].as_i64()
    }
}

/// The value of a flag in a command.
fn value<'a>(command: &'a [String], flag: &str) -> Option<&'a str> {
    command.iter().find_map(|word| word.strip_prefix(flag)?.strip_prefix('='))
}

/// Each flag of a command in its `--help`, and whether it takes a value.
fn flags_of(command: &[String]) -> BTreeMap<String, bool> {
    let subcommands: &[String] =
        if command[0] == "cluster" { &command[..2] } else { &command[..1] };
    let told = Command::new(guira()).args(subcommands).arg("--help").output();
    let told = told.expect("guira runs");
    assert!(told.status.success(), "{subcommands:?}: {told:?}");
    let help = String::from_utf8_lossy(&told.stdout).into_owned();
    let heads = help.lines().map(str::trim).filter(|line| line.starts_with('-'));
    let flag = |line: &str| {
        let rest = line.split_once("--")?.1;
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
        let takes = after.trim_start_matches([' ', '=', '[']).starts_with('<');
        Some((format!("--{name}"), takes))
    };
    heads.filter_map(flag).collect()
}

#[test]
fn each_flag_is_one_of_the_program_and_each_path_lies_in_a_volume() {
    let documents = documents();
    for pods in Pods::all(&documents) {
        let mounts: BTreeMap<&str, (&str, bool)> = list(&pods.container["volumeMounts"])
            .iter()
            .map(|it| {
                let is_writable = it["readOnly"].as_bool() != Some(true);
                (text(&it["mountPath"]), (text(&it["name"]), is_writable))
            })
            .collect();
        let volumes = list(&pods.spec["volumes"]).iter().map(|it| text(&it["name"]));
        let claims = list(&pods.owner["spec"]["volumeClaimTemplates"]).iter();
        let claims = claims.map(|it| text(&it["metadata"]["name"]));
        let volumes: BTreeSet<&str> = volumes.chain(claims).collect();
        let mounted: BTreeSet<&str> = mounts.values().map(|it| it.0).collect();
        assert_eq!(mounted, volumes, "each volume is mounted, and there is no other");
        let mut used = BTreeSet::new();
        for command in pods.commands() {
            let known = flags_of(&command);
            assert!(known.len() > 5, "{known:?}");
            for word in command.iter().filter(|it| it.starts_with('-')) {
                let (flag, given) =
                    word.split_once('=').map_or((&**word, None), |it| (it.0, Some(it.1)));
                assert_eq!(known.get(flag), Some(&given.is_some()), "{word} of {}", command[0]);
                let path = given.map(|it| it.strip_prefix("file:").unwrap_or(it));
                let Some(path) = path.filter(|it| it.starts_with('/')) else { continue };
                let mount = mounts.iter().find(|it| Path::new(path).starts_with(it.0));
                let (_, (name, is_writable)) = mount.unwrap_or_else(|| panic!("no volume: {word}"));
                let writes = ["--directory", "--config-dump-root", "--async-dir"].contains(&flag);
                assert_eq!(*is_writable, writes, "{word}");
                used.insert(*name);
            }
            let named: Vec<&str> =
                command.iter().flat_map(|word| word.split("$(").skip(1)).collect();
            let env: BTreeSet<&str> =
                list(&pods.container["env"]).iter().map(|it| text(&it["name"])).collect();
            for name in named {
                let name = name.split(')').next().unwrap_or_default();
                assert!(env.contains(name), "{name} is no variable of the container");
            }
        }
        assert_eq!(used, volumes, "each volume is used");
    }
}

#[test]
fn services_probes_and_budgets_fit_the_pods() {
    let documents = documents();
    let pods = Pods::all(&documents);
    let services = of_kind(&documents, "Service");
    let with_labels = |selector: &Yaml| {
        let found: Vec<&Pods<'_>> = pods.iter().filter(|it| it.labels == selector).collect();
        assert_eq!(found.len(), 1, "{selector:?}");
        found[0]
    };
    for service in &services {
        let behind = with_labels(&service["spec"]["selector"]);
        for port in list(&service["spec"]["ports"]) {
            let there = behind.port(text(&port["name"]));
            let target = match &port["targetPort"] {
                Yaml::String(name) => behind.port(name),
                _ => port["port"].as_i64(),
            };
            assert!(there.is_some() && there == target, "{port:?}");
        }
    }
    for budget in of_kind(&documents, "PodDisruptionBudget") {
        with_labels(&budget["spec"]["selector"]["matchLabels"]);
        assert_eq!(budget["spec"]["maxUnavailable"].as_i64(), Some(1));
    }
    for it in &pods {
        let kind = text(&it.owner["kind"]);
        let security = &it.container["securityContext"];
        assert_eq!(it.spec["securityContext"]["runAsNonRoot"].as_bool(), Some(true), "{kind}");
        assert_eq!(security["allowPrivilegeEscalation"].as_bool(), Some(false), "{kind}");
        assert_eq!(security["readOnlyRootFilesystem"].as_bool(), Some(true), "{kind}");
        assert_eq!(words(&security["capabilities"]["drop"]), ["ALL"], "{kind}");
        let resources = &it.container["resources"];
        assert!(!resources["requests"]["memory"].is_badvalue(), "{kind}");
        assert!(!resources["limits"]["memory"].is_badvalue(), "{kind}");
        if kind == "Job" {
            continue;
        }
        assert_eq!(&it.owner["spec"]["selector"]["matchLabels"], it.labels, "{kind}");
        let command = &it.commands()[0];
        let number = |flag: &str| {
            let port = value(command, flag).and_then(|it| it.rsplit(':').next());
            port.and_then(|it| it.parse::<i64>().ok())
        };
        assert_eq!(it.port("http"), number("--http"), "{kind}");
        assert_eq!(it.port("clients"), number("--port"), "{kind}");
        for (probe, path) in [("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
            let asked = &it.container[probe]["httpGet"];
            assert_eq!((text(&asked["path"]), text(&asked["port"])), (path, "http"), "{kind}");
        }
    }
    let nodes = Pods::of(&documents, "StatefulSet");
    let set = &nodes.owner["spec"];
    let service = text(&set["serviceName"]);
    let named = |it: &&&Yaml| it["metadata"]["name"].as_str() == Some(service);
    let headless = &services.iter().find(named).expect("its service")["spec"];
    assert_eq!(headless["clusterIP"].as_str(), Some("None"));
    assert_eq!(headless["publishNotReadyAddresses"].as_bool(), Some(true));
    assert_eq!(text(&set["podManagementPolicy"]), "Parallel");
    let [start, end] = &nodes.commands()[..] else { panic!("a command, and one before the end") };
    let port = nodes.port("peers").expect("a port");
    let host = format!("$(POD_NAME).{service}.$(POD_NAMESPACE).svc.cluster.local");
    assert_eq!(value(start, "--peers"), Some(&*format!("{host}:{port}")));
    let wait: i64 = value(end, "--wait").and_then(|it| it.parse().ok()).expect("a number");
    let grace = nodes.spec["terminationGracePeriodSeconds"].as_i64().expect("a number");
    assert!(grace >= wait + 60, "{grace} s are for a wait of {wait} s and the node's own end");
    let place = value(start, "--cluster").expect("a place");
    assert_eq!(end[2], place);
    assert_eq!(Pods::of(&documents, "Job").commands()[0][2], place);
    let route = text(&of_kind(&documents, "ConfigMap")[0]["data"]["route.json"]);
    assert!(route.contains(&format!("\"etcd\": \"{place}\"")), "{route}");
}

/// What stands in for a cluster of machines: directories for volumes, ports for addresses.
struct Machine {
    etcd: Etcd,
    directory: PathBuf,
    /// Each with what stands for it here.
    replaced: Vec<(String, String)>,
}

impl Machine {
    fn new() -> Self {
        let (etcd, directory) = (Etcd::start_secured(), own_directory());
        let secret = |name: &str, files: [&str; 3]| {
            let path = directory.join(name);
            fs::create_dir_all(&path).expect("a directory");
            for (file, text) in ["ca.crt", "tls.crt", "tls.key"].iter().zip(files) {
                fs::write(path.join(file), text).expect("a file");
            }
            path.display().to_string()
        };
        let authority = Authority::new("the nodes' authority");
        let own = authority.identity_for("nodes", "127.0.0.1");
        let tls = secret("tls", [&authority.pem, &own.certificate, &own.key]);
        let pems =
            etcd.pems.clone().expect("TLS").map(|path| fs::read_to_string(path).expect("a file"));
        let etcd_tls = secret("etcd", [&pems[0], &pems[1], &pems[2]]);
        let place = format!("localhost:{}", etcd.port());
        let replaced = vec![
            ("etcd.default.svc.cluster.local:2379".to_owned(), place),
            ("/etc/guira/etcd".to_owned(), etcd_tls),
            ("/etc/guira/tls".to_owned(), tls),
        ];
        Self { etcd, directory, replaced }
    }

    /// Words of a manifest, as they are here.
    fn here(&self, words: &[String], more: &[(&str, String)]) -> Vec<String> {
        let all = || {
            self.replaced
                .iter()
                .map(|it| (&*it.0, &it.1))
                .chain(more.iter().map(|it| (it.0, &it.1)))
        };
        let replace =
            |word: &String| all().fold(word.clone(), |word, (from, to)| word.replace(from, to));
        words.iter().map(replace).collect()
    }

    fn run(&self, words: &[String], more: &[(&str, String)]) -> (Option<i32>, String) {
        let told = Command::new(guira()).args(self.here(words, more)).output().expect("guira runs");
        let said = [told.stdout, told.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
        (told.status.code(), said.concat())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.directory).ok();
    }
}

fn is_ready(http: u16) -> bool {
    accepts(&Address::Tcp(http)) && get_http(http, "/readyz").0.contains("200")
}

fn told(client: &mut Client, request: &str) -> String {
    let mut told = String::new();
    within(60, "an answer", || {
        told = client.ask(request);
        !told.starts_with("SERVER_ERROR")
    });
    told
}

/// Pod 0 has this machine's name, as each pod has its own.
#[test]
fn the_commands_make_a_cluster_and_restart_a_node_of_it() {
    let documents = documents();
    let machine = Machine::new();
    let (code, said) = machine.run(&Pods::of(&documents, "Job").commands()[0], &[]);
    assert_eq!(code, Some(0), "{said}");
    let nodes = Pods::of(&documents, "StatefulSet").commands();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let names = [host, "guira-node-1".to_owned(), "guira-node-2".to_owned()];
    let ports = [0; 3].map(|_| [free_port(), free_port(), free_port()]);
    let start = |pod: usize| {
        let [clients, peers, http] = ports[pod];
        let address = "$(POD_NAME).guira-nodes.$(POD_NAMESPACE).svc.cluster.local:11312";
        let volume = machine.directory.join(&names[pod]);
        let more = [
            (address, format!("127.0.0.1:{peers}")),
            ("$(POD_NAME)", names[pod].clone()),
            ("$(HOST_NAME)", format!("host-{pod}")),
            ("/var/lib/guira", volume.display().to_string()),
            ("--port=11311", format!("--port={clients}")),
            ("*:9150", format!("127.0.0.1:{http}")),
        ];
        fs::create_dir_all(volume).expect("a directory");
        let words = machine.here(&nodes[0][1..], &more);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Server::start_at(Program::Store, &words, Address::Tcp(clients)).expect("it starts")
    };
    let mut running: Vec<Server> = (0..3).map(start).collect();
    within(120, "all are ready", || ports.iter().all(|it| is_ready(it[2])));

    let route = text(&of_kind(&documents, "ConfigMap")[0]["data"]["route.json"]);
    let config = machine.directory.join("route.json");
    fs::write(&config, machine.here(&[route.to_owned()], &[]).concat()).expect("a file");
    let [clients, http] = [free_port(), free_port()];
    let more = [
        ("/etc/guira/route/route.json", config.display().to_string()),
        ("/var/lib/guira", machine.directory.display().to_string()),
        ("--port=11211", format!("--port={clients}")),
        ("*:9151", format!("127.0.0.1:{http}")),
    ];
    let words = machine.here(&Pods::of(&documents, "Deployment").commands()[0], &more);
    ["config", "spool"].iter().for_each(|name| {
        fs::create_dir_all(machine.directory.join(name)).expect("a directory");
    });
    let mut command = Command::new(guira());
    command.args(words);
    let router = Server::start_by(command, Address::Tcp(clients)).expect("it starts");
    within(60, "the router is ready", || is_ready(http));
    let mut client = router.connect();
    assert_eq!(told(&mut client, "set k 0 0 1\r\n1"), "STORED\r\n");

    let (code, said) = machine.run(&nodes[1], &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&names[0]) && said.contains("serves no slot any more"), "{said}");
    let mut node = running.remove(0);
    node.signal(Signal::TERM);
    assert!(node.ended_within(60).is_some_and(|it| it.success()), "{}", node.said());
    assert_eq!(client.ask("get k"), "VALUE k 0 1\r\n1\r\nEND\r\n");
    let back = start(0);
    within(120, "it is ready", || is_ready(ports[0][2]));
    assert_eq!(client.ask("get k"), "VALUE k 0 1\r\n1\r\nEND\r\n");
    drop((back, running, router));
    assert!(machine.etcd.ctl(&["endpoint", "health"]));
}
