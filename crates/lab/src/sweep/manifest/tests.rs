use super::*;

fn asked(variants: &[usize], points: &[usize], repetitions: u32, index: usize, of: usize) -> Manifest {
    let shard = Shard { index, of };
    let left_out = Vec::new();
    Manifest { variants: variants.to_vec(), points: points.to_vec(), repetitions, shard, left_out }
}

fn lacking(asked: &[Manifest], there: &BTreeSet<Job>) -> Missing {
    Missing::of(asked.iter(), there, |variant| format!("v{variant}"))
}

#[test]
fn shards_divide_what_was_asked_for() {
    let whole: Vec<Job> = asked(&[0, 2], &[1, 3], 3, 0, 1).jobs().collect();
    assert_eq!(whole.len(), 12);
    assert!(whole.is_sorted());
    let mut shards: Vec<Job> =
        (0..5).flat_map(|index| asked(&[0, 2], &[1, 3], 3, index, 5).jobs().collect::<Vec<_>>()).collect();
    shards.sort();
    assert_eq!(shards, whole);
}

#[test]
fn one_shard_tells_what_others_lack() {
    let shard = |index| asked(&[0], &[4, 9], 5, index, 3);
    let there = BTreeSet::from_iter(shard(0).jobs().chain(shard(2).jobs().skip(1)));
    let missing = lacking(&[shard(0)], &there);
    assert_eq!((missing.runs, missing.of), (4, 10));
    assert_eq!(missing.to_string(), "4 of 10 runs are missing: 3 of shard 1/3, 1 of shard 2/3");
    // The same runs are also requested with other shards, and one more repetition of a point is requested
    // without shards.
    let more = [shard(0), asked(&[0], &[4, 9], 5, 1, 2), asked(&[0], &[4], 6, 0, 1)];
    let missing = lacking(&more, &there);
    assert_eq!((missing.runs, missing.of), (5, 11));
    assert_eq!(lacking(&[shard(0)], &shard(0).whole().collect()).runs, 0);
    let none = lacking(&[asked(&[0], &[0], 20, 0, 20)], &BTreeSet::new()).to_string();
    assert!(none.ends_with(", 1 of shard 7/20 and some of 12 other shards"), "{none}");
}

/// Two of three machines lack a kernel. All three divide the runs in the same way.
#[test]
fn variants_that_a_machine_cannot_run_count_in_the_division() {
    let shard = |index, left_out: &[usize]| Manifest {
        left_out: left_out.to_vec(),
        ..asked(&[0, 1, 5], &[2, 3], 2, index, 3)
    };
    let there = |all: &[Manifest]| all.iter().flat_map(|one| one.jobs().collect::<Vec<_>>()).collect();
    let some = [shard(0, &[]), shard(1, &[1]), shard(2, &[1])];
    assert_eq!(some[1].variants(), [0, 5]);
    let done: BTreeSet<Job> = there(&some);
    assert_eq!(done.len(), 9, "each run once");
    let missing = lacking(&some, &done);
    assert_eq!((missing.runs, missing.of), (3, 12));
    let said = "3 of 12 runs are missing: 2 of shard 1/3, 1 of shard 2/3; left out for want of their program or kernel: v1";
    assert_eq!(missing.to_string(), said);
    // If no machine has the kernel, its runs are not requested. If all machines have it, no runs are missing.
    let none = [0, 1, 2].map(|index| shard(index, &[1]));
    assert_eq!(lacking(&none, &there(&none)), Missing { of: 8, ..Missing::default() });
    let again = [some.clone(), [0, 1, 2].map(|index| shard(index, &[]))].concat();
    assert_eq!(lacking(&again, &there(&again)).runs, 0);
    let many: Vec<usize> = (0..20).collect();
    let both = [0, 1].map(|index| Manifest {
        left_out: if index == 0 { Vec::new() } else { many.clone() },
        ..asked(&many, &[0, 1], 1, index, 2)
    });
    let said = lacking(&both, &there(&both)).to_string();
    assert!(said.ends_with(": v0, v1, v10, v11, v12, v13, v14, v15 and 12 more"), "{said}");
}
