// Activations in codes of BITS bits, in shared memory as `x_q`: units of 16 bytes hold eight of 16 bits, as high bytes, low
// bytes, high, low, or sixteen of 8 bits. Each SCALED of them have a scale, the step of their codes.
const float STEPS = BITS == 16 ? 32512.0 : 127.0; // 127 * 256: the high byte stays within a signed byte
const uint UNIT = BITS == 16 ? 8 : 16;
layout(constant_id = 22) const uint SIGNED_DOTS = 0; // 1: products are of signed bytes only; see lib/dot.glsl

// A unit of padding after every eight keeps subgroups, whose threads are a chunk apart, from meeting in one bank. Units of a run
// are neighbours.
uint unit_at(uint unit) { return unit + unit / 8; }
uint unit_of(uint i) { return unit_at(i / (UNIT / 4)); } // of vec4 i of the activations
uint word_of(uint i) { return BITS == 16 ? 2 * (i % 2) : i % 4; }

// The threads that hold those of one scale tell each other their largest where their codes will be.
void tell_largest(uint from, uint i, vec4 x) {
    vec4 a = abs(x);
    x_q[from + unit_of(i)][word_of(i)] = floatBitsToUint(max(max(a.x, a.y), max(a.z, a.w)));
}
float largest_told(uint from, uint i) {
    float largest = 0.0;
    [[unroll]] for (uint u = 0; u < SCALED / UNIT; u++) {
        vec4 most = uintBitsToFloat(x_q[from + unit_at(i / (SCALED / 4) * (SCALED / UNIT) + u)]);
        largest = max(largest, BITS == 16 ? max(most.x, most.z) : max(max(most.x, most.y), max(most.z, most.w)));
    }
    return largest;
}

uint packed(ivec4 q) { return uint(q.x & 255) | (uint(q.y & 255) << 8) | (uint(q.z & 255) << 16) | (uint(q.w) << 24); }
// Four activations: the high and the low bytes of their codes, or the codes.
uvec2 quantized(vec4 x, float largest) {
    float inverse = largest > 1e-30 ? STEPS / largest : 0.0;
    // Rounds: added to 1.5 * 2^23, a number of so few bits is the low end of the sum. Conversions are slow.
    ivec4 q = floatBitsToInt(x * inverse + 12582912.0);
    if (BITS == 8) return uvec2(packed(q), 0);
    q -= 0x4b400000;
    ivec4 high = (q + 128) >> 8;
    return uvec2(packed(high), packed(q - (high << 8)));
}
void put_quantized(uint from, uint i, vec4 x, float largest) {
    uvec2 codes = quantized(x, largest);
    uint unit = from + unit_of(i);
    x_q[unit][word_of(i)] = codes.x;
    if (BITS == 16) x_q[unit][word_of(i) + 1] = codes.y;
}

// Sum of the sixteen codes from unit `at` on.
int sum_of_half(uint at) {
    ivec4 a = ivec4(x_q[at]);
    int high = dotPacked4x8EXT(0x01010101, a.x) + dotPacked4x8EXT(0x01010101, a.z);
    int low = dotPacked4x8EXT(0x01010101, a.y) + dotPacked4x8EXT(0x01010101, a.w);
    if (BITS == 8) return high + low;
    a = ivec4(x_q[at + 1]);
    high += dotPacked4x8EXT(0x01010101, a.x) + dotPacked4x8EXT(0x01010101, a.z);
    low += dotPacked4x8EXT(0x01010101, a.y) + dotPacked4x8EXT(0x01010101, a.w);
    return high * 256 + low;
}

// What products with the high and low bytes, or with all codes, come to.
int whole(ivec2 dots) { return BITS == 16 ? dots.x * 256 + dots.y : dots.x + dots.y; }
