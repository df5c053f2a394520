//! Blocks: admitted, shared, copied, let go.

use super::*;
use crate::session::table::RING_BACK;
use pumex_step::{RowOutput, Token};

fn rows(seq: u32, from: u32, to: u32) -> Vec<Row> {
    (from..to).map(|pos| Row { seq, pos, token: Token::Id(0), output: RowOutput::None, medium: None }).collect()
}

fn paged_blocks(blocks: usize) -> BlockAllocator {
    BlockAllocator::new(&[(Rule::Paged, blocks)], 3)
}

/// All that admission may change.
fn state(b: &BlockAllocator) -> String {
    format!("{:?} {:?} {:?}", b.stores, b.held, b.source)
}

#[test]
fn blocks_are_reused_after_forgetting_and_run_out_with_an_error() {
    let mut b = paged_blocks(2);
    b.admit(&rows(0, 0, 33)).unwrap();
    assert_eq!(b.table(0, 0).blocks, [0, 1]);
    assert!(b.admit(&rows(1, 0, 1)).is_err(), "both blocks are taken");
    assert!(b.admit(&rows(0, 40, 41)).is_err(), "a gap");
    assert_eq!((b.forget(0, 32), b.sequence_len(0)), (32, 32));
    b.admit(&rows(1, 0, 1)).unwrap();
    assert_eq!((&b.table(0, 0).blocks[..], &b.table(0, 1).blocks[..]), (&[0][..], &[1][..]));
    assert_eq!(b.forget(9, 0), 0, "no such sequence");
}

#[test]
fn forks_share_blocks_until_one_of_them_writes() {
    let mut b = paged_blocks(4);
    b.admit(&rows(0, 0, 40)).unwrap();
    b.fork(0, 1, 40).unwrap();
    assert_eq!((b.free(0), b.sequence_len(1), &b.table(0, 1).blocks[..]), (2, 40, &[0, 1][..]));
    // The fork writes to the second block, which it gets for itself; the first stays shared.
    assert_eq!(b.blocks_needed(0, &rows(1, 40, 41)), 1);
    b.admit(&rows(1, 40, 41)).unwrap();
    assert_eq!(b.copies(), [BlockCopy { store: 0, from: 1, to: 2 }]);
    assert_eq!((&b.table(0, 0).blocks[..], &b.table(0, 1).blocks[..]), (&[0, 1][..], &[0, 2][..]));
    // Now nobody shares the blocks that are written.
    b.admit(&[rows(0, 40, 41), rows(1, 41, 42)].concat()).unwrap();
    assert_eq!((b.copies(), b.free(0)), (&[][..], 1));
    // What one of them forgets, the other keeps.
    b.forget(0, 0);
    assert_eq!((b.free(0), b.stores[0].pool.holders(0)), (2, 1));
    b.forget(1, 0);
    assert_eq!(b.free(0), 4);
}

#[test]
fn of_all_that_write_to_a_shared_block_the_last_keeps_it() {
    let mut b = paged_blocks(3);
    b.admit(&rows(0, 0, 10)).unwrap();
    b.fork(0, 1, 10).unwrap();
    b.fork(0, 2, 5).unwrap();
    let all = [rows(2, 5, 6), rows(0, 10, 11), rows(1, 10, 11)].concat();
    assert_eq!(b.blocks_needed(0, &all), 2);
    b.admit(&all).unwrap();
    assert_eq!((b.copies().len(), b.free(0)), (2, 0));
    let tables = [0, 1, 2].map(|seq| b.table(0, seq).blocks[0]);
    assert_eq!(tables, [2, 0, 1]);
}

#[test]
fn a_fork_of_whole_blocks_copies_nothing_and_one_of_less_copies_when_it_writes() {
    let mut b = paged_blocks(8);
    b.admit(&rows(0, 0, 64)).unwrap();
    b.fork(0, 1, 32).unwrap();
    b.admit(&rows(1, 32, 33)).unwrap();
    assert_eq!((b.copies(), &b.table(0, 1).blocks[..]), (&[][..], &[0, 2][..]));
    b.fork(0, 1, 0).unwrap();
    assert_eq!((b.sequence_len(1), b.table(0, 1).blocks.len(), b.free(0)), (0, 0, 6));
    let refused = |b: &mut BlockAllocator, from, to, n| b.fork(from, to, n).unwrap_err().to_string();
    assert!(refused(&mut b, 0, 1, 65).contains("expected at most 64 positions, found 65"));
    assert!(refused(&mut b, 0, 3, 1).contains("expected two sequences below 3, found 0 and 3"));
    assert!(refused(&mut b, 1, 1, 0).contains("expected two sequences"));
}

#[test]
fn what_admission_did_is_undone_to_the_last_block() {
    let ring = Rule::Ring { window: 40 };
    let mut b = BlockAllocator::new(&[(Rule::Paged, 6), (ring, 6), (Rule::Recurrent, 2)], 3);
    b.admit(&rows(0, 0, 100)).unwrap();
    b.fork(0, 1, 100).unwrap();
    let before = state(&b);
    b.admit(&[rows(1, 100, 140), rows(0, 100, 101)].concat()).unwrap();
    assert!(state(&b) != before && !b.copies().is_empty());
    b.undo();
    assert_eq!((state(&b), b.copies()), (before.clone(), &[][..]));
    // One state is left for the third sequence, and no K and V.
    assert!(b.admit(&[rows(1, 100, 140), rows(2, 0, 33)].concat()).is_err());
    assert_eq!(state(&b), before);
}

#[test]
fn a_ring_holds_a_window_and_frees_what_is_before_it() {
    let (window, n_ctx) = (40, 1000);
    let rule = Rule::Ring { window };
    let most = rule.most_blocks(n_ctx, 1);
    let mut b = BlockAllocator::new(&[(rule, most)], 1);
    for pos in 0..300 {
        assert!(b.blocks_needed(0, &rows(0, pos, pos + 1)) <= b.free(0) + 1, "position {pos}");
        b.admit(&rows(0, pos, pos + 1)).unwrap();
        let (table, pos) = (b.table(0, 0), pos as usize);
        let seen = (pos + 1).saturating_sub(window);
        assert!(table.first * 32 <= seen, "position {pos}: the window is held");
        assert!((table.first + 1) * 32 > seen.saturating_sub(RING_BACK), "position {pos}: no more than that");
        assert_eq!(table.end(), pos / 32 + 1);
        assert!(b.free(0) + table.blocks.len() == most);
    }
    // Going back a little is possible, going back before what is held is starting anew.
    assert_eq!((b.forget(0, 290), b.sequence_len(0)), (290, 290));
    b.admit(&rows(0, 290, 291)).unwrap();
    assert_eq!((b.forget(0, 200), b.sequence_len(0), b.free(0)), (0, 0, most));
    b.admit(&rows(0, 0, 1)).unwrap();
}

#[test]
fn rings_fork_with_the_window_they_still_have() {
    let mut b = BlockAllocator::new(&[(Rule::Ring { window: 33 }, 12)], 2);
    b.admit(&rows(0, 0, 64)).unwrap();
    b.admit(&rows(0, 64, 96)).unwrap();
    b.admit(&rows(0, 96, 128)).unwrap();
    assert_eq!(b.table(0, 0), &BlockTable { first: 1, blocks: vec![1, 2, 0] });
    assert!(b.fork(0, 1, 60).unwrap_err().to_string().contains("no longer held"));
    b.fork(0, 1, 100).unwrap();
    assert_eq!(b.table(0, 1), &BlockTable { first: 1, blocks: vec![1, 2, 0] });
    b.admit(&rows(1, 100, 128)).unwrap();
    assert_eq!(b.copies().len(), 1);
    b.admit(&rows(1, 128, 129)).unwrap();
    assert_eq!(b.table(0, 1).first, 2, "what only the other still needs is the other's");
    assert_eq!(b.stores[0].pool.holders(1), 1);
}

#[test]
fn what_is_kept_of_a_sequence_can_be_that_of_another() {
    let stores = [(Rule::Paged, 9), (Rule::Ring { window: 33 }, 7), (Rule::Recurrent, 2)];
    let mut b = BlockAllocator::new(&stores, 2);
    for (from, to) in [(0, 60), (60, 90), (90, 100)] {
        b.admit(&rows(0, from, to)).unwrap();
    }
    let kept = b.state_header(0);
    assert_eq!(kept, StateHeader { held: 100, source: 0, first: vec![0, 1, 0], media: vec![] });
    b.adopt(1, &kept).unwrap();
    assert_eq!((b.sequence_len(1), b.state_header(1), b.saved_blocks(1, 1).len()), (100, kept.clone(), 3));
    assert!((0..3).all(|store| b.saved_blocks(store, 0).len() == b.saved_blocks(store, 1).len()));
    b.admit(&rows(1, 100, 101)).unwrap();
    // Too few blocks, and blocks that cannot be, leave nothing.
    let mut small = BlockAllocator::new(&[(Rule::Paged, 3), stores[1], stores[2]], 2);
    assert!(small.adopt(0, &kept).is_err());
    assert_eq!((small.free(0), small.free(1), small.free(2), small.sequence_len(0)), (3, 7, 2, 0));
    for wrong in [vec![0, 1], vec![1, 1, 0], vec![0, 3, 0], vec![0, 0, 0], vec![0, 1, 1], vec![0, usize::MAX, 0]] {
        assert!(b.adopt(1, &StateHeader { first: wrong.clone(), ..kept.clone() }).is_err(), "{wrong:?}");
        assert_eq!(b.sequence_len(1), 0);
    }
    assert!(b.adopt(2, &kept).is_err() && b.adopt(1, &StateHeader { held: 0, ..kept.clone() }).is_err());
    assert!(b.adopt(1, &StateHeader { held: 0, source: 0, first: vec![0; 3], media: vec![] }).is_ok());
}

#[test]
fn a_recurrent_state_is_one_block_that_goes_on_and_never_back() {
    let mut b = BlockAllocator::new(&[(Rule::Recurrent, 2)], 2);
    b.admit(&rows(0, 0, 50)).unwrap();
    b.admit(&rows(0, 50, 500)).unwrap();
    assert_eq!((b.free(0), &b.table(0, 0).blocks[..]), (1, &[0][..]));
    assert!(b.admit(&rows(0, 400, 401)).unwrap_err().to_string().contains("expected 500"));
    assert!(b.fork(0, 1, 499).is_err(), "only the last state is there");
    b.fork(0, 1, 500).unwrap();
    assert_eq!(b.free(0), 1);
    b.admit(&rows(1, 500, 501)).unwrap();
    assert_eq!(b.copies(), [BlockCopy { store: 0, from: 0, to: 1 }]);
    assert_eq!((b.forget(0, 499), b.free(0)), (0, 1), "a state of fewer positions is none");
}
