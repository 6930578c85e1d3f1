//! The page that lists a directory. maud escapes names, so that no name can inject HTML.

use std::time::SystemTime;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;

use super::path::{Wanted, encode};
use super::root::{Entries, Entry, MAX_LISTED};
use crate::size;

const STYLE: &str = "\
body { font: 1rem/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
td { padding: .1rem .5rem } td + td { color: gray; text-align: right; white-space: nowrap }
a { text-decoration: none } tr:hover { background: #8882 }
@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd } a { color: #8cf } }";

const TIME: StaticFormatDescription = format_description!("[year]-[month]-[day] [hour]:[minute]");

pub(super) fn page(wanted: &Wanted, found: &Entries) -> Markup {
    let title = if wanted.is_root() { "/".to_owned() } else { format!("/{}/", wanted.path().display()) };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                table {
                    @if !wanted.is_root() { tr { td { a href="../" { "../" } } td {} td {} } }
                    @for entry in &found.entries { (row(entry)) }
                }
                @if found.more { p { "There are more; only " (MAX_LISTED) " are listed." } }
            }
        }
    }
}

fn row(entry: &Entry) -> Markup {
    let slash = if entry.size.is_none() { "/" } else { "" };
    // Links are relative to this page; `./` prevents a name from being read as a scheme.
    let link = format!("./{}{slash}", encode(&entry.name));
    html! {
        tr {
            td { a href=(link) { (entry.name.display()) (slash) } }
            td { (entry.size.map(size::words).unwrap_or_default()) }
            td { (entry.modified.map(date).unwrap_or_default()) }
        }
    }
}

fn date(time: SystemTime) -> String {
    OffsetDateTime::from(time).format(&TIME).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn names_are_text_and_links_lead_to_them() {
        let entry = |name: &[u8], size| Entry {
            name: OsString::from_vec(name.to_vec()),
            size,
            modified: Some(SystemTime::UNIX_EPOCH),
        };
        let entries = vec![
            entry(b"javascript:alert(1)", Some(0)),
            entry(b"<img src=x onerror=\"alert(1)\">&", Some(1)),
            entry(b"\xff", Some(1_536)),
            entry(b"sub", None),
        ];
        let wanted = Wanted::parse("/%3Cb%3E/").unwrap();
        let page = page(&wanted, &Entries { entries, more: true }).into_string();
        for expected in [
            "<h1>/&lt;b&gt;/</h1>",
            "href=\"./javascript%3Aalert%281%29\"",
            "&lt;img src=x onerror=&quot;alert(1)&quot;&gt;&amp;<",
            "href=\"./%FF\"",
            "href=\"./sub/\"",
            "1.54 kB",
            "1970-01-01 00:00",
            "There are more",
            "href=\"../\"",
        ] {
            assert!(page.contains(expected), "{expected} is missing in\n{page}");
        }
        assert!(!page.contains("<img") && !page.contains("<b>"));
    }
}
