//! Experts of many rows, expert by expert, against each row for itself. Of a single layer, before which all is rounded alike, so that
//! rows choose the same experts.

use crate::util::{assert_silent, exact, nmse, options, rows, vulkan};
use pumex::engine::{CacheType, Debug, Options};
use pumex::quantize::recipe;
use pumex::step::{Runner, Want};
use pumex::synthetic;

#[test]
fn rows_of_one_expert_together_give_what_each_gives_for_itself() {
    let tiny = synthetic::find("tiny-moe").unwrap();
    for (kind, experts) in [("Q4_K_M", (16, 4, 256)), ("IQ3_S", (16, 2, 512)), ("Q8_0", (60, 8, 256))] {
        let shape = synthetic::Shape { n_layer: 1, n_embd: 512, n_vocab: 640, experts: Some(experts), ..*tiny };
        let gguf = shape.model(recipe::find(kind).unwrap()).unwrap();
        let run = |fuse| {
            let options = Options {
                debug: Debug { fuse, matrices: true, ..exact() },
                max_rows: 600,
                n_ctx: Some(1024),
                ..options(CacheType::F32)
            };
            let mut runner = vulkan(&gguf, options)?;
            if runner.vk().caps().matrix_n.is_empty() {
                println!("skipped: {} has no cooperative matrices of 16 x 16 halves", runner.device());
                return None;
            }
            let ids: Vec<u32> = (0..700).map(|i| (i * 37 + 5) % 640).collect();
            let mut all = Vec::new();
            for (from, to) in [(0, 33), (33, 133), (133, 700)] {
                all.extend(runner.run(&rows(0, from, &ids[from..to]), Want::Logits).unwrap().logits);
            }
            assert_silent(&runner);
            Some(all)
        };
        let Some(together) = run(true) else { return };
        let Some(unfused) = run(false) else { return };
        let error = nmse(&together, &unfused);
        println!("{kind} {experts:?}: NMSE {error:.2e}");
        assert!(error < 2e-6, "{kind} {experts:?}: NMSE {error:e}");
    }
}
