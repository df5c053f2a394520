// StepParams: all that changes per step, in one small buffer of words. Its Rust twin is src/engine/params.rs.
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Step { uint w[]; };

const uint STEP_ROWS = 0;         // rows in this step
const uint STEP_WANTED = 1;       // of which so many have their logits computed
const uint STEP_WANTED_AT = 2;    // word where the indices of the wanted rows start
const uint STEP_TAGS = 3;         // what tags of the step's packets start at, see chain.comp
const uint STEP_HEADER_WORDS = 8; // then the rows: token, position, sequence, word where its block table starts
const uint STEP_ROW_WORDS = 4;
const uint TOKEN_SAMPLED = 0xffffffff; // the row's token is what its sequence sampled last
const uint KV_BLOCK = 32;         // positions per block of the KV cache

uint step_field(Step s, uint row, uint i) { return s.w[STEP_HEADER_WORDS + row * STEP_ROW_WORDS + i]; }
uint step_token(Step s, uint row) { return step_field(s, row, 0); }
uint step_pos(Step s, uint row) { return step_field(s, row, 1); }
uint step_seq(Step s, uint row) { return step_field(s, row, 2); }
uint step_table(Step s, uint row) { return step_field(s, row, 3); }
uint step_wanted(Step s, uint i) { return s.w[s.w[STEP_WANTED_AT] + i]; }

// Slot of a position in a layer's cache, in units of head_dim elements: [block][kv_head][KV_BLOCK][head_dim].
uint kv_slot(Step s, uint table, uint pos, uint kv_head, uint kv_heads) {
    return (s.w[table + pos / KV_BLOCK] * kv_heads + kv_head) * KV_BLOCK + pos % KV_BLOCK;
}
