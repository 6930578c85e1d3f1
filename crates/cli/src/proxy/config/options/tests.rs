use clap::Parser;

use super::*;
use crate::proxy::connect::Connect;

/// Options of a command that exists only in this test.
#[derive(Args, Debug)]
struct Sample {
    #[arg(id = "place", value_name = "PLACE")]
    place: String,
    /// Names of things
    #[arg(long = "thing")]
    things: Vec<String>,
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u32).range(1..=16))]
    max_things: u32,
    #[arg(long, conflicts_with = "other_file")]
    some_file: Option<PathBuf>,
    #[arg(long)]
    other_file: Option<PathBuf>,
    #[arg(long)]
    quick: bool,
}

#[derive(Parser, Debug)]
struct Line {
    #[command(flatten)]
    sample: Configured<Sample>,
}

/// Merges a file with this text and a command line. Returns the options, or the lines of all problems.
fn read(text: &str, line: &[&str]) -> std::result::Result<Sample, Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.toml");
    std::fs::write(&path, text).unwrap();
    let document = Document::read(&path).unwrap();
    let arguments = [&["x", "--config", path.to_str().unwrap()], line].concat();
    let configured = Line::try_parse_from(arguments).unwrap().sample;
    assert!(configured.has_file());
    let shown = |problem: &Problem| document.line(problem).split_once("f.toml:").unwrap().1.trim().to_owned();
    let mut sample = configured.merged(&document).map_err(|all| all.iter().map(shown).collect::<Vec<_>>())?;
    for file in [&mut sample.some_file, &mut sample.other_file].into_iter().flatten() {
        *file = file.strip_prefix(dir.path()).unwrap_or(file).to_owned();
    }
    Ok(sample)
}

#[test]
fn options_of_the_command_line_win() {
    let text = "place = \"a\"\nthing = [\"b\", \"c\"]\nmax-things = 7\nsome_file = \"token\"\nquick = true\n";
    let sample = read(text, &[]).unwrap();
    assert_eq!((sample.place.as_str(), sample.max_things, sample.quick), ("a", 7, true));
    assert_eq!(sample.things, ["b", "c"]);
    assert_eq!(sample.some_file, Some("token".into()), "beside the file");

    let sample = read(text, &["--other-file", "/own", "--thing", "d", "e", "--max-things=8"]).unwrap();
    assert_eq!((sample.place.as_str(), sample.max_things), ("e", 8));
    assert_eq!(sample.things, ["d"], "not those of the file as well");
    assert_eq!((sample.some_file, sample.other_file), (None, Some("/own".into())), "one excludes the other");
    assert_eq!(read("place = \"-x\"\nthing = \"-y\"", &[]).unwrap().things, ["-y"]);
}

#[test]
fn problems_have_keys_and_lines() {
    for (text, expected) in [
        ("place = \"a\"\nthnig = \"b\"\n", "2: unknown key `thnig`; did you mean `thing`?"),
        ("place = \"a\"\nverbose = 1\n", "2: unknown key `verbose`"),
        ("place = \"a\"\n[section]\nx = 1\n", "2: unknown key `section`"),
        ("\nmax_things = 17\nplace = \"a\"", "2: max_things: invalid value '17' for '--max-things"),
        ("place = \"a\"\nthing = [\n\"b\",\n1979-05-27]", "4: thing: a string or a decimal number is wanted"),
        ("place = [\"a\"]", "1: place: one value is wanted, and no list"),
        ("place = \"a\"\nquick = \"yes\"", "2: quick: true or false is wanted"),
        ("place = ", "1: "),
        ("quick = true", "missing, here or on the command line: <PLACE>"),
    ] {
        let problems = read(text, &[]).unwrap_err();
        assert!(problems.len() == 1 && problems[0].starts_with(expected), "{text}: {problems:?}");
    }
    let both = read("place = \"a\"\nsome_file = \"b\"\nother_file = \"c\"\n", &[]).unwrap_err();
    assert!(both[0].contains("cannot be used with") && both[0].contains("--other-file"), "{both:?}");
    let two = read("a = 1\nb = 2\n", &[]).unwrap_err();
    assert_eq!(two.len(), 2);
}

#[test]
fn without_a_file_the_command_line_must_suffice() {
    let missing = Line::try_parse_from(["x", "--quick"]).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::MissingRequiredArgument);
    let sample = Line::try_parse_from(["x", "a", "--quick"]).unwrap().sample.read().unwrap();
    assert!(sample.quick && sample.place == "a");
}

#[test]
fn commands_have_their_options_as_keys() {
    let keys =
        ["proxy", "socks", "http", "token_file", "max_paths", "not_path", "udp_idle", "window", "congestion"];
    assert_eq!(known_keys::<Connect>(&keys), keys.len());
    assert_eq!(known_keys::<Connect>(&["config", "verbose", "help", "listen"]), 0);
}
