// Which positions a row may see where some are chosen: plan/src/sparse_attention.rs. Needs, of push constants, `most`, `every` and `fills`.

// Positions of blocks that a row at `pos` sees.
uint budget_of(uint pos) { return most + (fills == 1 ? every - 1 - (pos + 1) % every : 0); }
// Whether it sees all.
bool sees_all(uint pos) { return (pos + 1) / every * every <= budget_of(pos); }
