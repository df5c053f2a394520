//! Which text is nearest to the first one: `cargo run --release --example embeddings -- model.gguf "a stone" "a rock" "a cat"`.

use pumex::{Error, Model, Result};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or_else(|| Error::Usage("expected: embeddings MODEL.gguf TEXT TEXT...".into()))?;
    let texts: Vec<String> = args.collect();
    let model = Model::options().embeddings(true).open(path)?;
    let vectors = model.embed(&texts)?;
    let [first, others @ ..] = &vectors[..] else { return Ok(()) };
    for (text, vector) in texts[1..].iter().zip(others) {
        // Vectors have length one: their product is the cosine of the angle between them.
        let cosine: f32 = first.iter().zip(vector).map(|(a, b)| a * b).sum();
        println!("{cosine:.3}  {text}");
    }
    Ok(())
}
