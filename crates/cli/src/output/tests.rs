use super::*;

async fn written(destination: &Destination, text: &'static str) -> String {
    let mut output = Output::open(destination, true).unwrap();
    output.write(Bytes::from_static(text.as_bytes())).await.unwrap();
    hex(&output.keep().await.unwrap().unwrap())
}

fn sha256(text: &str) -> String {
    hex(&aws_lc_rs::digest::digest(&SHA256, text.as_bytes()))
}

#[tokio::test]
async fn digests_are_of_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().join("file");
    let whole = Destination::File(name.clone());
    assert_eq!(written(&whole, "one").await, sha256("one"));
    let rest = Destination::Rest(name.clone());
    assert_eq!(rest.begun(), 3);
    assert_eq!(written(&rest, "two").await, sha256("onetwo"));
    assert_eq!(fs::read(&name).unwrap(), b"onetwo");
    assert_eq!(written(&Destination::Nowhere, "three").await, sha256("three"));
    assert_eq!(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/// Writer that accepts a few bytes at a time and records their addresses.
#[derive(Default)]
struct Reluctant {
    written: Vec<u8>,
    from: Vec<*const u8>,
}

impl Write for Reluctant {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut n = 0;
        for slice in slices.iter().take(2) {
            let some = &slice[..slice.len().min(7)];
            self.from.push(some.as_ptr());
            self.written.extend_from_slice(some);
            n += some.len();
            if some.len() < slice.len() {
                break;
            }
        }
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn pieces_are_written_from_where_they_lie() {
    let memory = Bytes::from((0..100).collect::<Vec<u8>>());
    let pieces = [memory.slice(..30), Bytes::new(), memory.slice(30..31), memory.slice(31..)];
    let mut out = Reluctant::default();
    write_together(&mut out, &pieces).unwrap();
    assert_eq!(out.written, memory);
    let range = memory.as_ptr_range();
    assert!(out.from.len() >= 14 && out.from.iter().all(|from| range.contains(from)));
    write_together(&mut out, &[Bytes::new()]).unwrap();
    assert_eq!(out.written.len(), 100);
}

#[tokio::test]
async fn every_name_that_a_file_can_have_will_do() {
    let dir = tempfile::tempdir().unwrap();
    let longest = Destination::File(dir.path().join("n".repeat(255)));
    assert_eq!(written(&longest, "one").await, sha256("one"));
    let Err(refused) = Output::open(&Destination::File(dir.path().join("n".repeat(256))), false) else {
        panic!("no file can have this name");
    };
    assert_eq!(refused.exit(), Exit::Io);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn what_never_begins_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().join("file");
    drop(Output::open(&Destination::Rest(name.clone()), false).unwrap());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let empty = Output::open(&Destination::Rest(name.clone()), false).unwrap();
    empty.keep().await.unwrap();
    assert_eq!(fs::read(&name).unwrap(), b"");
}

#[tokio::test]
async fn what_is_not_kept_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().join("file");
    fs::write(&name, "before").unwrap();
    let mut output = Output::open(&Destination::File(name.clone()), false).unwrap();
    output.write(Bytes::from_static(b"after")).await.unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    drop(output);
    assert_eq!(fs::read(&name).unwrap(), b"before");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}
