//! Formats of replies, found from templates.

use std::path::Path;

use pumex_chat::reply::Format;
use pumex_chat::Template;

#[test]
fn show() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../work/shared/golden/chat/templates");
    let mut files: Vec<_> = std::fs::read_dir(root).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    for file in files {
        let template = Template::parse(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let format = Format::of(&template);
        println!(
            "{:60} {:16} {:?}",
            file.file_stem().unwrap().to_string_lossy(),
            format.name,
            format.reasoning.map(|r| r.open)
        );
    }
}
