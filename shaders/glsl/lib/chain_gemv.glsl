// A stage of chain.comp with weights of one format. Rows are dealt to the subgroups of all workgroups in turn; a subgroup goes
// through the chunks of its rows (of gate, then of up) one after the other, DEPTH of them under way.
#ifdef UNSIGNED_CODES
int DOT4(uint q, int a) { return dotPacked4x8EXT(a, q); }
#else
int DOT4(uint q, int a) { return dotPacked4x8EXT(int(q), a); }
#endif

// The products of a chunk's weights with the activations.
float PRODUCT(uint c, uint q[CHUNK / 4], vec2 s[PIECES]) {
    const uint HALVES = CHUNK / 4 / PIECES / 2; // units per piece
    float sum = 0.0;
    [[unroll]] for (uint p = 0; p < PIECES; p++) {
        uint at = chunk_col(c, p * 2 * HALVES), run = at / 32;
        ivec2 dots = ivec2(0);
        [[unroll]] for (uint h = 0; h < HALVES; h++) {
            ivec4 a = ivec4(x_codes[unit_at(at / 8 + h)]);
            uint i = (p * HALVES + h) * 2;
            dots.x += DOT4(q[i], a.x) + DOT4(q[i + 1], a.z);
            dots.y += DOT4(q[i], a.y) + DOT4(q[i + 1], a.w);
        }
        sum += x_scale[run] * s[p].x * float(dots.x * 256 + dots.y);
#ifdef HAS_OFFSET
        vec2 sums = x_sum[run];
        sum += s[p].y * (HALVES == 4 ? sums.x + sums.y : at % 32 < 16 ? sums.x : sums.y);
#endif
    }
    return sum;
}

Line LINE(uint row, uint part, bool gated) {
    uint m0 = word(AT_M0), m01 = word(AT_M01);
    row = min(row, word(AT_M) - 1);
    if (!gated) {
        part = row < m0 ? 0 : row < m01 ? 1 : 2;
        row -= part == 0 ? 0 : part == 1 ? m0 : m01;
    }
    return line_of(uvec2(words[stage][AT_W + 2 * part], words[stage][AT_W + 2 * part + 1]), row, word(AT_K));
}

void RUN(uint s) {
    const uint lane = gl_SubgroupInvocationID, lanes = gl_SubgroupSize;
    const uint step = gl_NumWorkGroups.x * gl_NumSubgroups, first = word(AT_FIRST), m = word(AT_M);
    const bool gated = is(GATED), adds = is(ADD);
    const uint chunks = word(AT_K) / CHUNK, turns = (chunks + lanes - 1) / lanes;
    uint row = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID;
    row = subgroupBroadcastFirst(row < first ? row + step - first : row - first);
    uint items = row < m ? (m - row + step - 1) / step * turns * (gated ? 2 : 1) : 0;
    hold_norm();
    // Of the chunk that is asked for next.
    uint ask_row = row, ask_part = 0, ask_turn = 0, ask_left = items;
    Line line = LINE(ask_row, 0, gated);
    Raw raw[DEPTH];
#define ASK(d) \
    if (ask_left > 0) { \
        raw[d] = weight_load(line, min(ask_turn * lanes + lane, chunks - 1)); \
        ask_left--; \
        if (++ask_turn == turns) { \
            ask_turn = 0; \
            ask_part = gated ? 1 - ask_part : 0; \
            if (ask_part == 0) ask_row += step; \
            line = LINE(ask_row, ask_part, gated); \
        } \
    }
    [[unroll]] for (uint d = 0; d < DEPTH; d++) ASK(d)
    await_others(s);
    code();
    Met y = Met(address(AT_Y));
    float sum = 0.0, gate = 0.0, before = 0.0;
    uint part = 0, turn = 0;
    for (uint item = 0; item < items; item += DEPTH) {
        [[unroll]] for (uint d = 0; d < DEPTH; d++) {
            if (item + d < items) {
                uint c = turn * lanes + lane, q[CHUNK / 4];
                vec2 s[PIECES];
                weight_codes(raw[d], min(c, chunks - 1), q, s);
                ASK(d)
                if (adds && turn == 0) before = y.v[row];
                if (c < chunks) sum += PRODUCT(c, q, s);
                if (++turn == turns) {
                    turn = 0;
                    sum = subgroupAdd(sum) * norm_scale;
                    if (gated && part == 0) {
                        gate = biased(sum, 0, row);
                        part = 1;
                    } else {
                        if (gated) {
                            sum = gate / (1.0 + exp(-gate)) * biased(sum, 1, row);
                            part = 0;
                        } else {
                            uint m0 = word(AT_M0), m01 = word(AT_M01);
                            if (row < m0) sum = biased(sum, 0, row);
                            else if (row < m01) sum = biased(sum, 1, row - m0);
                            else sum = biased(sum, 2, row - m01);
                        }
                        if (subgroupElect()) y.v[row] = before + sum;
                        row += step;
                    }
                    sum = 0.0;
                }
            }
        }
    }
}
#undef ASK
