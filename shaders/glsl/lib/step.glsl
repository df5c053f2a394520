// StepParams: all that changes per step, in one small buffer of words.
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Step { uint w[]; };

#include "words/step.glsl"

uint step_field(Step s, uint row, uint i) { return s.w[STEP_HEADER_WORDS + row * STEP_ROW_WORDS + i]; }
uint step_token(Step s, uint row) { return step_field(s, row, ROW_TOKEN); }
uint step_pos(Step s, uint row) { return step_field(s, row, ROW_POS); }
uint step_seq(Step s, uint row) { return step_field(s, row, ROW_SEQ); }
uint step_table(Step s, uint row) { return step_field(s, row, ROW_TABLE); }
uint step_rope(Step s, uint row) { return step_field(s, row, ROW_ROPE); }
// Of a step with vectors alone.
uint step_medium(Step s, uint row, uint i) { return s.w[s.w[STEP_MEDIA_AT] + row * STEP_MEDIUM_WORDS + i]; }
uint step_output(Step s, uint i) { return s.w[s.w[STEP_OUTPUTS_AT] + i]; }
// Where the id of an output row goes: the place of its sequence, or one that nobody reads if another row comes after it.
uint step_place(Step s, uint i) { return s.w[s.w[STEP_PLACES_AT] + i]; }

// Slot of a position in a layer's cache, in units of head_dim elements: [block][kv_head][KV_BLOCK][head_dim].
uint kv_slot(Step s, uint table, uint pos, uint kv_head, uint kv_heads) {
    return (s.w[table + pos / KV_BLOCK] * kv_heads + kv_head) * KV_BLOCK + pos % KV_BLOCK;
}
