//! Execution of all scenes in order.

use std::path::Path;
use std::time::Instant;

use super::follow::{SCENES, name_server};
use super::network::lay;
use super::scene::Scene;

/// Runs all scenes. This process must be in namespaces of its own.
pub(super) fn run(program: &Path) -> Result<bool, String> {
    lay()?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let scene = Scene::set(program, folder.path())?;
    name_server(folder.path())?;
    let mut good = true;
    let mut tell = |name: &str, play: &dyn Fn() -> Result<String, String>| {
        let begun = Instant::now();
        let outcome = play();
        good &= outcome.is_ok();
        let words = outcome.map_or_else(|why| format!("FAIL: {why}"), |what| format!("ok: {what}"));
        println!("paths {name:<18} {:>5.1} s  {words}", begun.elapsed().as_secs_f64());
    };
    for (name, play) in [
        ("silent-first", Scene::silent_first as fn(&Scene) -> Result<String, String>),
        ("interfaces-change", Scene::interfaces_change),
        ("unreachable", Scene::unreachable),
        ("no-migration", Scene::forbidden),
    ] {
        tell(name, &|| play(&scene));
    }
    for (name, prepare, change) in SCENES {
        tell(name, &|| scene.followed(prepare, change));
    }
    Ok(good)
}
