// A recurrence over the rows of a sequence, CHUNK rows of the step at a time, by what scan_pairs found. A workgroup holds COLS of the
// V_DIM rows of a head's state in registers, a thread STATE columns of one of them, and goes from window to window of the sequences
// whose first row in the step is in its window. Rows of other sequences are zeros to it.
//   aims = v - S0 (faded k), of the delta rule, else v;  y = S0 (faded q) + result aims;  S += written aims ⊗ (k faded to the end)
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 28) const uint CHUNK = 16;
layout(constant_id = 29) const uint COLS = 16;
#include "lib/scan.glsl"
#define STATE 16
const uint PARTS = (K_DIM + STATE - 1) / STATE;
const uint SIZE = COLS * PARTS;
const uint WIDE = STATE * PARTS;
const uint EACH = (WIDE + SIZE - 1) / SIZE; // columns that a thread reads of a row
const uint PAIRS = CHUNK * CHUNK;
const uint LOADS = (2 * PAIRS + SIZE - 1) / SIZE;
const uint ITEMS = (CHUNK + PARTS - 1) / PARTS; // rows of the results of a thread
const uint HELD = 2 * CHUNK * PARTS * (COLS > STATE ? COLS : STATE) / 4;
shared vec4 held[HELD];                    // faded k and q, then sums of parts
shared vec4 ends[CHUNK * WIDE / 4];        // k faded to the end of the window
shared vec4 through[WIDE / 4];             // what the state fades by over the window
shared float known[2 * PAIRS];             // of scan_pairs
shared float aims[CHUNK * COLS], writes[CHUNK * COLS];
shared uint starts[CHUNK];                 // 1: the first row of a sequence

// What the next window brings.
uint next_own;
float next_q[EACH * CHUNK], next_k[EACH * CHUNK], next_fade[EACH * CHUNK], next_known[LOADS], next_v[ITEMS];

void ask(uint window, uint first, uint last, uint head, uint v0) {
    const uint at = window * CHUNK, seq = step_seq(params, first), group = group_of(head), thread = gl_LocalInvocationIndex;
    next_own = 0;
    [[unroll]] for (uint t = 0; t < CHUNK; t++) {
        const uint row = at + t;
        if (row >= first && row <= last && step_seq(params, min(row, last)) == seq) next_own |= 1u << t;
    }
    if (next_own == 0) return;
    [[unroll]] for (uint e = 0; e < EACH; e++) {
        const uint i = thread + e * SIZE;
        const float by = KIND == SCAN_MAMBA ? factor_of(head, min(i, K_DIM - 1)) : 0.0;
        [[unroll]] for (uint t = 0; t < CHUNK; t++) {
            const uint row = at + t;
            const bool there = i < K_DIM && (next_own >> t & 1) == 1;
            next_q[e * CHUNK + t] = there ? q.v[row * Q_WIDTH + group * Q_STRIDE + i] : 0.0;
            next_k[e * CHUNK + t] = there ? k.v[row * K_WIDTH + group * K_STRIDE + i] : 0.0;
            next_fade[e * CHUNK + t] = there ? fade_of(decay_of(row, head, i), rate_of(row, head), by) : 1.0;
        }
    }
    [[unroll]] for (uint l = 0; l < LOADS; l++) {
        const uint pair = min(thread + l * SIZE, 2 * PAIRS - 1);
        next_known[l] = pairs.v[(window * HEADS + head) * 2 * PAIRS + pair];
    }
    [[unroll]] for (uint m = 0; m < ITEMS; m++) {
        const uint t = thread / COLS + m * PARTS, i = v0 + thread % COLS;
        const bool there = t < CHUNK && i < V_DIM && (next_own >> t & 1) == 1;
        next_v[m] = there ? v.v[(at + t) * V_WIDTH + head * V_STRIDE + i] : 0.0;
    }
}

void put(uint at, float x) { held[at / 4][at % 4] = x; }
float held_at(uint at) { return held[at / 4][at % 4]; }

void scan(uint first, uint head, uint v0) {
    const uint thread = gl_LocalInvocationIndex, col = thread % COLS, part = thread / COLS, last = last_row(first);
    const bool fresh = step_pos(params, first) == 0;
    F32 kept = state_of(first);
    const uint from = (head * V_DIM + v0 + col) * K_DIM + part * STATE;
    vec4 s[STATE / 4];
    [[unroll]] for (uint j = 0; j < STATE; j++) {
        const bool there = v0 + col < V_DIM && part * STATE + j < K_DIM && !fresh;
        s[j / 4][j % 4] = there ? kept.v[from + j] : 0.0;
    }
    ask(first / CHUNK, first, last, head, v0);
    for (uint window = first / CHUNK; window <= last / CHUNK; window++) {
        const uint own = next_own;
        if (own != 0) {
            barrier(); // of the window before, all is read
            [[unroll]] for (uint e = 0; e < EACH; e++) {
                const uint i = thread + e * SIZE;
                if (i >= WIDE) continue;
                float faded = 1.0, left = 1.0;
                [[unroll]] for (uint t = 0; t < CHUNK; t++) {
                    faded *= next_fade[e * CHUNK + t];
                    if (KIND == SCAN_DELTA) put(t * WIDE + i, next_k[e * CHUNK + t] * faded);
                    put((CHUNK + t) * WIDE + i, next_q[e * CHUNK + t] * faded);
                    const uint back = CHUNK - 1 - t;
                    ends[(back * WIDE + i) / 4][i % 4] = next_k[e * CHUNK + back] * left;
                    left *= next_fade[e * CHUNK + back];
                }
                through[i / 4][i % 4] = faded;
            }
            [[unroll]] for (uint l = 0; l < LOADS; l++) {
                if (thread + l * SIZE < 2 * PAIRS) known[thread + l * SIZE] = next_known[l];
            }
        }
        float vs[ITEMS];
        [[unroll]] for (uint m = 0; m < ITEMS; m++) vs[m] = next_v[m];
        if (window < last / CHUNK) ask(window + 1, first, last, head, v0);
        if (own == 0) continue;
        barrier();
        float keys[CHUNK], queries[CHUNK];
        [[unroll]] for (uint t = 0; t < CHUNK; t++) {
            keys[t] = 0.0;
            queries[t] = 0.0;
            [[unroll]] for (uint j = 0; j < STATE / 4; j++) {
                if (KIND == SCAN_DELTA) keys[t] += dot(s[j], held[t * WIDE / 4 + part * STATE / 4 + j]);
                queries[t] += dot(s[j], held[(CHUNK + t) * WIDE / 4 + part * STATE / 4 + j]);
            }
        }
        barrier();
        [[unroll]] for (uint t = 0; t < CHUNK; t++) {
            if (KIND == SCAN_DELTA) put((part * 2 * CHUNK + t) * COLS + col, keys[t]);
            put((part * 2 * CHUNK + CHUNK + t) * COLS + col, queries[t]);
        }
        barrier();
        float results[ITEMS];
        [[unroll]] for (uint m = 0; m < ITEMS; m++) {
            const uint t = part + m * PARTS;
            if (t >= CHUNK) continue;
            float key = 0.0;
            results[m] = 0.0;
            [[unroll]] for (uint p = 0; p < PARTS; p++) {
                if (KIND == SCAN_DELTA) key += held_at((p * 2 * CHUNK + t) * COLS + col);
                results[m] += held_at((p * 2 * CHUNK + CHUNK + t) * COLS + col);
            }
            aims[t * COLS + col] = (own >> t & 1) == 1 ? vs[m] - key : 0.0;
        }
        barrier();
        [[unroll]] for (uint m = 0; m < ITEMS; m++) {
            const uint t = part + m * PARTS;
            if (t >= CHUNK) continue;
            float sum = 0.0;
            for (uint r = 0; r <= t; r++) {
                sum += known[t * CHUNK + r] * aims[r * COLS + col];
                results[m] += known[PAIRS + t * CHUNK + r] * aims[r * COLS + col];
            }
            writes[t * COLS + col] = (own >> t & 1) == 1 ? sum : 0.0;
            if ((own >> t & 1) == 1 && v0 + col < V_DIM) {
                y.v[(window * CHUNK + t) * Y_WIDTH + head * Y_STRIDE + v0 + col] = scale * results[m] + skipped(head, vs[m]);
            }
        }
        barrier();
        [[unroll]] for (uint j = 0; j < STATE / 4; j++) s[j] *= through[part * STATE / 4 + j];
        [[unroll]] for (uint t = 0; t < CHUNK; t++) {
            const float by = writes[t * COLS + col];
            [[unroll]] for (uint j = 0; j < STATE / 4; j++) s[j] += by * ends[t * WIDE / 4 + part * STATE / 4 + j];
        }
    }
    [[unroll]] for (uint j = 0; j < STATE; j++) {
        if (v0 + col < V_DIM && part * STATE + j < K_DIM) kept.v[from + j] = s[j / 4][j % 4];
    }
}

void main() {
    const uint head = gl_WorkGroupID.x / ((V_DIM + COLS - 1) / COLS), v0 = gl_WorkGroupID.x % ((V_DIM + COLS - 1) / COLS) * COLS;
    const uint from = gl_WorkGroupID.y * CHUNK, thread = gl_LocalInvocationIndex;
    if (from >= params.w[STEP_ROWS]) return;
    if (thread < CHUNK) {
        starts[thread] = from + thread < params.w[STEP_ROWS] && row_before(from + thread) == NO_ROW ? 1 : 0;
    }
    barrier();
    for (uint t = 0; t < CHUNK; t++) {
        if (starts[t] == 1) scan(from + t, head, v0);
    }
}
