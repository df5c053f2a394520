//! Snapshots of what would run: the dispatches of the models in the repository on devices that need not be there.
//!
//! `PUMEX_BLESS=1 cargo test dispatches` writes them anew.

use crate::util::{demo_path, fixture};
use pumex::gguf::Gguf;
use pumex::lower::dump::{dry_run, DryRun};
use pumex::lower::CacheType;
use pumex::model;
use pumex::policy::devices;
use std::path::Path;

#[test]
fn dispatches_are_as_reviewed() {
    let models = [("demo", demo_path()), ("qwen3moe", fixture("qwen3moe").with_extension("gguf"))];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/dispatches");
    for (name, path) in models {
        let plan = model::plan(&Gguf::open(&path).unwrap()).unwrap();
        for device in ["h200", "lavapipe", "radeon_rx_6800_xt", "arc_b580"] {
            let caps = devices::find(device).unwrap();
            // Of the latter two how many rows go: as bytes, and by matrices from shared memory.
            let first = if ["h200", "lavapipe"].contains(&device) { 0 } else { 3 };
            let mut text = String::new();
            for (rows, decode_batch) in [(1, true), (3, false), (8, true), (40, false)].into_iter().skip(first) {
                let run = DryRun {
                    plan: &plan,
                    caps: &caps,
                    rows,
                    decode_batch,
                    outputs: 1,
                    cache_types: (CacheType::F16, CacheType::F16),
                    len: 300,
                    source: false,
                };
                let steps = dry_run(&run).unwrap();
                text += &format!("# {rows} rows, decode batch: {decode_batch}\n{steps}\n");
            }
            let file = folder.join(format!("{name}.{device}.txt"));
            if std::env::var_os("PUMEX_BLESS").is_some() {
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(&file, &text).unwrap();
            }
            let known = std::fs::read_to_string(&file).unwrap_or_default();
            let differs = known.lines().zip(text.lines()).find(|(a, b)| a != b);
            assert!(known == text, "{}: first difference {differs:#?}", file.display());
        }
    }
}
