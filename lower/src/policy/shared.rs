//! Shared memory for formats' tables, which stand there as often as there is room for.

use pumex_quant::{tables, Format};
use pumex_vk::Caps;

/// Bytes that a table's copies take where there is room: threads that look entries up meet in a bank less often then.
const TABLE_MOST: usize = 32 << 10;

/// Bytes of the table a format's decoder keeps in shared memory, as often as is usual.
pub fn table_bytes(format: &Format) -> usize {
    tables::of(format.id).map_or(0, |t| 4 * t.len_words()) * usual_copies(format) as usize
}

/// How often a format's table stands in shared memory where nothing else is said.
pub fn usual_copies(format: &Format) -> u32 {
    table_copies(format, tables::USUAL_BYTES)
}

/// How often a format's table, if it has one, fits into so many bytes: once at least.
pub fn table_copies(format: &Format, room: usize) -> u32 {
    tables::of(format.id).map_or(1, |t| t.copies(room)) as u32
}

/// Bytes of shared memory for a table beside `used` bytes; no less than is usual, which callers have left.
pub(super) fn table_room(caps: &Caps, used: usize) -> usize {
    (caps.max_shared_bytes as usize).saturating_sub(used).clamp(tables::USUAL_BYTES, TABLE_MOST)
}
