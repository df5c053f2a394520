//! What is in a picture: `cargo run --release --example vision -- model.gguf mmproj.gguf picture.png`.

use pumex::{Error, Message, Model, Result};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, mmproj, picture] = &args[..] else {
        return Err(Error::Usage("expected: vision MODEL.gguf MMPROJ.gguf PICTURE".into()));
    };
    let model = Model::options().mmproj(mmproj).open(model)?;
    let message = Message::user("What is in this picture?").image(picture)?;
    for chunk in model.chat([message]).max_tokens(256).stream()? {
        print!("{}", chunk?);
    }
    println!();
    Ok(())
}
