//! `cargo xtask interop`: runs this project's command with other stacks, in both roles, case by case.

mod case;
mod chapter;
mod described;
mod field;
mod judge;
mod known;
mod multipath;
pub(crate) mod netns;
mod process;
mod program;
mod record;
mod report;
mod reverso;
mod run;
mod tunnel;
mod watch;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use case::Case;
use chapter::Chapter;
use field::Field;
use judge::Outcome;
use program::{OURS, PEERS, Program};
use report::{Column, Record};

/// Selection of peers and cases; by default all.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Arguments {
    /// Only this peer, a folder of peers/ (repeatable); `anabranch` is this project's own command
    #[arg(long)]
    peer: Vec<String>,
    /// Only this case (repeatable)
    #[arg(long)]
    case: Vec<String>,
    /// Role of this project's command
    #[arg(long, value_enum, default_value_t = Role::Both)]
    role: Role,
    /// Only the quick cases
    #[arg(long)]
    smoke: bool,
    /// Run the public interop runner's contract instead, with both endpoints in network namespaces (needs
    /// root and iproute2)
    #[arg(long, conflicts_with_all = ["peer", "role", "smoke", "between"])]
    netns: bool,
    /// Run the multipath cases instead, with peers that support them
    #[arg(long, conflicts_with_all = ["netns", "smoke", "between"])]
    multipath: bool,
    /// Run QUIC VReverso instead, with peers that support it
    #[arg(long, conflicts_with_all = ["netns", "multipath", "smoke"])]
    reverso: bool,
    /// Run the tunnel (CONNECT-UDP, CONNECT-IP) instead, with peers that support it
    #[arg(long, conflicts_with_all = ["netns", "multipath", "reverso", "smoke"])]
    tunnel: bool,
    /// Number of pairs that run concurrently; use few on a machine with few processors
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: u8,
    /// Use this project's command without building it
    #[arg(long)]
    no_build: bool,
    /// Write the results into docs/interop.md, which keeps those of everything that was not run
    #[arg(long, conflicts_with_all = ["netns", "multipath", "reverso", "tunnel", "between"])]
    merge: bool,
    /// Run between two peers instead, to test the runner itself
    #[arg(long, value_names = ["CLIENT", "SERVER"], num_args = 2, conflicts_with_all = ["peer", "role"])]
    between: Vec<String>,
}

/// Role of this project's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Role {
    Server,
    Client,
    Both,
}

/// Runs the selected cases and prints the matrix. Returns true if none failed. A complete run writes
/// `docs/interop.md`, another one its part of it if asked.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<bool, String> {
    if arguments.netns {
        let done = netns::run(root, arguments)?;
        println!("\n{}", report::matrix(&report::names(&done.cases), std::slice::from_ref(&done.column)));
        return Ok(!done.column.has_failed());
    }
    if arguments.multipath || arguments.reverso || arguments.tunnel {
        let chapter = match (arguments.multipath, arguments.reverso) {
            (true, _) => multipath::SUBJECT.play(root, arguments)?,
            (false, true) => reverso::SUBJECT.play(root, arguments)?,
            (false, false) => tunnel::SUBJECT.play(root, arguments)?,
        };
        println!("\n{}", chapter.matrix());
        if is_whole(arguments) {
            chapter.write(root)?;
        }
        return Ok(!chapter.has_failed());
    }
    let cases = chosen(arguments)?;
    let field = Field::new()?;
    let pairs = pairs(arguments);
    let programs = programs(root, &pairs, !arguments.no_build);
    let columns = play_all(&pairs, arguments.jobs.into(), |client, server| {
        let play = |case: &Case| {
            let outcome = outcome(client, server, &programs, |from, to| run::play(case, from, to, &field));
            println!("{}", report::line(client, server, case.name, &outcome));
            outcome
        };
        cases.iter().map(play).collect()
    });
    println!("\n{}", report::matrix(&report::names(&cases), &columns));
    let failed = columns.iter().any(Column::has_failed);
    let version = |program: &Program| Some((program.name.clone(), program.version(root)?));
    let versions = programs.iter().filter_map(|(_, program)| version(program.as_ref().ok()?)).collect();
    let record = Record { columns, versions, later: Vec::new() };
    if arguments.merge {
        merge(root, &cases, &record)?;
    } else if is_whole(arguments) {
        return Ok(write_all(root, arguments, &cases, &record)? && !failed);
    }
    Ok(!failed)
}

/// Writes the results of `run` into `docs/interop.md`, and leaves everything else there.
fn merge(root: &Path, run: &[Case], results: &Record) -> Result<(), String> {
    let file = root.join("docs/interop.md");
    let failed = |error: &dyn std::fmt::Display| format!("docs/interop.md: {error}");
    let all = case::all();
    let document = fs::read_to_string(&file).map_err(|error| failed(&error))?;
    let mut record = Record::read(&document, &all).map_err(|error| failed(&error))?;
    record.take(&all, run, results);
    fs::write(&file, report::with_matrix(&document, &all, &record)).map_err(|error| failed(&error))
}

/// Runs the chapters, too, and writes `docs/interop.md` anew. Returns true if nothing has failed in the chapters.
fn write_all(root: &Path, arguments: &Arguments, cases: &[Case], results: &Record) -> Result<bool, String> {
    let contract = netns::run(root, arguments)?;
    let built = Arguments { no_build: true, ..arguments.clone() };
    let chapters = [
        multipath::SUBJECT.play(root, &built)?,
        reverso::SUBJECT.play(root, &built)?,
        tunnel::SUBJECT.play(root, &built)?,
    ];
    let text: String = chapters.iter().map(Chapter::text).collect();
    let document = report::document(cases, results, &contract, &text);
    let docs = root.join("docs");
    fs::create_dir_all(&docs)
        .and_then(|()| fs::write(docs.join("interop.md"), document))
        .map_err(|error| format!("docs/interop.md: {error}"))?;
    Ok(!chapters.iter().any(Chapter::has_failed))
}

/// Name of a program, and the program or the reason why it cannot take part.
type Known = (String, Result<Program, String>);

/// Returns all programs that take part, after building them if necessary.
fn programs(root: &Path, pairs: &[(String, String)], fresh: bool) -> Vec<Known> {
    let mut programs: Vec<Known> = Vec::new();
    for name in pairs.iter().flat_map(|(client, server)| [client, server]) {
        if !programs.iter().any(|(known, _)| known == name) {
            programs.push((name.clone(), Program::ready(root, name, fresh)));
        }
    }
    programs
}

/// Calls `play` for all cases of each pair. `jobs` pairs run concurrently.
fn play_all(
    pairs: &[(String, String)],
    jobs: usize,
    play: impl Fn(&str, &str) -> Vec<Outcome> + Sync,
) -> Vec<Column> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((client, server)) = pairs.get(number) else { return done };
            let outcomes = play(client, server);
            done.push((number, Column { client: client.clone(), server: server.clone(), outcomes }));
        }
    };
    let mut columns = thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect::<Vec<_>>()
    });
    columns.sort_by_key(|(number, _)| *number);
    columns.into_iter().map(|(_, column)| column).collect()
}

/// Calls `play` if both programs are available.
fn outcome(
    client: &str,
    server: &str,
    programs: &[Known],
    play: impl FnOnce(&Program, &Program) -> Outcome,
) -> Outcome {
    let find = |name: &str| programs.iter().find(|(known, _)| known == name).map(|(_, program)| program);
    match (find(client), find(server)) {
        (Some(Ok(from)), Some(Ok(to))) => play(from, to),
        // Without this project's command the run shows nothing, so its absence is a failure. Cases with a
        // missing peer are only skipped.
        (Some(Err(why)), _) if client == OURS => Outcome::Failed(format!("{client}: {why}")),
        (_, Some(Err(why))) if server == OURS => Outcome::Failed(format!("{server}: {why}")),
        (Some(Err(why)), _) => Outcome::Skipped(format!("{client}: {why}")),
        (_, Some(Err(why))) => Outcome::Skipped(format!("{server}: {why}")),
        (None, _) | (_, None) => Outcome::Failed("nobody looked for the programs".to_owned()),
    }
}

fn is_whole(arguments: &Arguments) -> bool {
    let nothing_left_out =
        arguments.peer.is_empty() && arguments.case.is_empty() && arguments.between.is_empty();
    nothing_left_out && arguments.role == Role::Both && !arguments.smoke
}

fn chosen(arguments: &Arguments) -> Result<Vec<Case>, String> {
    let mut cases = chapter::chosen(case::all(), arguments)?;
    cases.retain(|case| case.smoke || !arguments.smoke);
    Ok(cases)
}

/// Returns the pairs of client and server by name, in the order of the columns.
fn pairs(arguments: &Arguments) -> Vec<(String, String)> {
    if let [client, server] = &arguments.between[..] {
        return vec![(client.clone(), server.clone())];
    }
    let everybody: Vec<&str> = [OURS].iter().chain(PEERS).copied().collect();
    let peers: Vec<&str> = if arguments.peer.is_empty() {
        everybody
    } else {
        arguments.peer.iter().map(String::as_str).collect()
    };
    let mut pairs = Vec::new();
    for peer in peers {
        if peer == OURS || (arguments.role != Role::Server && program::serves(peer)) {
            pairs.push((OURS.to_owned(), peer.to_owned()));
        }
        if peer != OURS && arguments.role != Role::Client {
            pairs.push((peer.to_owned(), OURS.to_owned()));
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn arguments(line: &str) -> Arguments {
        Line::try_parse_from(format!("x {line}").split_whitespace()).unwrap().arguments
    }

    fn named(line: &str) -> Vec<String> {
        pairs(&arguments(line)).into_iter().map(|(client, server)| format!("{client}>{server}")).collect()
    }

    #[test]
    fn both_roles_of_all_peers_unless_said_otherwise() {
        let all = named("");
        let servers = PEERS.iter().filter(|peer| program::serves(peer)).count();
        assert_eq!(all.len(), 1 + PEERS.len() + servers);
        assert!(!all.contains(&"anabranch>curl-cffi".to_owned()));
        assert_eq!(all[..3], ["anabranch>anabranch", "anabranch>quinn", "quinn>anabranch"]);
        assert!(PEERS.iter().all(|peer| all.contains(&format!("{peer}>anabranch"))));
        assert_eq!(named("--peer quinn --role server"), ["quinn>anabranch"]);
        assert_eq!(
            named("--peer quinn --peer anabranch --role client"),
            ["anabranch>quinn", "anabranch>anabranch"]
        );
        assert_eq!(named("--between quinn quic-go"), ["quinn>quic-go"]);
    }

    #[test]
    fn only_a_whole_run_is_written_down() {
        assert!(is_whole(&arguments("")));
        for part in ["--smoke", "--peer quinn", "--case retry", "--role client", "--between a b"] {
            assert!(!is_whole(&arguments(part)), "{part}");
        }
    }

    #[test]
    fn cases_are_chosen_by_name() {
        let names = |line| {
            chosen(&arguments(line)).map(|cases| cases.iter().map(|case| case.name).collect::<Vec<_>>())
        };
        assert_eq!(names("--case retry --case ecn"), Ok(vec!["ecn", "retry"]));
        assert!(names("--case unheard").unwrap_err().contains("handshake, transfer"));
        let (all, smoke) = (names("").unwrap(), names("--smoke").unwrap());
        assert!(smoke.len() < all.len() && smoke.contains(&"transfer") && !smoke.contains(&"blackhole"));
    }
}
