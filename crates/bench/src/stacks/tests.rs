use super::*;

fn stack(name: &'static str) -> Stack {
    Stack { name, program: PathBuf::new(), prefix: &[], allocator: None, serving: Vec::new() }
}

fn stacks(names: &[&'static str]) -> Vec<Stack> {
    names.iter().copied().map(stack).collect()
}

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    choice: Choice,
}

fn choice(line: &str) -> Choice {
    <Line as clap::Parser>::parse_from(line.split(' ')).choice
}

#[test]
fn each_allocator_has_its_program() {
    let program = |line: &str| choice(line).ours().unwrap().program;
    assert!(program("bench").ends_with("system/release/anabranch"));
    assert_eq!(program("bench --anabranch a --anabranch-system b"), Path::new("b"));
    assert_eq!(program("bench --allocator mimalloc --anabranch a --anabranch-system b"), Path::new("a"));
    let Err(missing) = choice("bench --anabranch-system /absent").built() else { panic!("not built") };
    let missing = missing.to_string();
    assert!(
        missing.starts_with("/absent is not built") && missing.contains("--features lab,vpn"),
        "{missing}"
    );
    let Err(missing) = choice("bench --allocator mimalloc --anabranch /absent").built() else {
        panic!("not built")
    };
    assert!(missing.to_string().ends_with(BUILD), "{missing}");
}

#[test]
fn the_peers_are_told_the_allocator() {
    let told = |stack: &Stack| {
        let command = stack.command("server");
        let mut variables = command.get_envs().map(|(name, value)| (name.to_owned(), value.map(Into::into)));
        variables.next()
    };
    let peer = Stack { allocator: Some(Allocator::Mimalloc), ..stack("quinn") };
    assert_eq!(told(&peer), Some(("PEER_ALLOCATOR".into(), Some(std::ffi::OsString::from("mimalloc")))));
    assert_eq!(told(&stack("quinn")), None);
}

#[test]
fn a_program_with_another_allocator_is_an_error() {
    let said = |name: &str| serde_json::json!({ "allocator": name });
    assert!(Allocator::System.check(&said("system")).is_ok());
    assert!(Allocator::System.check(&said("mimalloc")).is_err());
    assert!(Allocator::Mimalloc.check(&said("system")).is_err());
    assert!(Allocator::Mimalloc.check(&serde_json::json!({ "bytes": 1 })).is_ok());
}

#[test]
fn every_stack_begins_once() {
    let mut order = Vec::new();
    let results = rotate(3, stacks(&[OURS, "quinn", "quiche"]), |stack| {
        order.push(stack.name);
        Ok(order.len())
    });
    assert_eq!([order[0], order[3], order[6]], [OURS, "quinn", "quiche"]);
    assert_eq!(results.unwrap()[1].1, [2, 4, 9]);
}

#[test]
fn a_peer_that_fails_is_left_out_and_we_are_not() {
    let fails = |name: &'static str| {
        move |stack: &Stack| if stack.name == name { Err("broken".into()) } else { Ok(()) }
    };
    let results = rotate(2, stacks(&[OURS, "quinn", "quiche"]), fails("quinn")).unwrap();
    assert_eq!(
        results.iter().map(|(stack, done)| (stack.name, done.len())).collect::<Vec<_>>(),
        [(OURS, 2), ("quiche", 2)]
    );
    assert!(rotate(2, stacks(&[OURS, "quinn"]), fails(OURS)).is_err());
}
