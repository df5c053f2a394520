// Writing of cache elements of the types that need more than a conversion: 32 at a time, of the heads in shared memory (lib/head.glsl).
uint bf16_bits(float x) {
    uint u = floatBitsToUint(x);
    return (u + 0x7fff + ((u >> 16) & 1)) >> 16;
}
uint nearest_level(float x) {
    uint q = 0;
    for (uint i = 0; i < 15; i++) q += uint(2.0 * x > float(KV_LEVELS[i] + KV_LEVELS[i + 1]));
    return q;
}
// Elements 2i and 2i + 1 of a slot, of the unquantized types; gives them as stored.
vec2 kv_store2(uvec2 cache, uint type, uint dim, uint at, uint i, vec2 x) {
    uint e = at * (dim / 2) + i;
    if (type == KV_F32) {
        F32x2(cache).v[e] = x;
        return x;
    }
    uint bits = type == KV_F16 ? packHalf2x16(x) : bf16_bits(x.x) | (bf16_bits(x.y) << 16);
    U32(cache).v[e] = bits;
    return type == KV_F16 ? unpackHalf2x16(bits) : uintBitsToFloat(uvec2(bits << 16, bits & 0xffff0000u));
}
// Block b of the slot, of the quantized types, from element `from` of the heads on.
void kv_store32(uvec2 cache, uint type, uint dim, uint at, uint b, uint from) {
    uint block = (at * (dim / 32) + b) * KV_WORDS[type];
    from += 32 * b;
    float low = head_at(from), high = low, largest = low;
    for (uint i = 1; i < 32; i++) {
        float x = head_at(from + i);
        low = min(low, x);
        high = max(high, x);
        largest = abs(x) > abs(largest) ? x : largest;
    }
    // (scale, what code 0 stands for), as stored: halves.
    vec2 d = vec2(0.0);
    if (type == KV_Q8_0) d.x = abs(largest) / 127.0;
    if (type == KV_Q4_0) d = vec2(largest / -8.0, largest);
    if (type == KV_Q5_0) d = vec2(largest / -16.0, largest);
    if (type == KV_Q4_1) d = vec2((high - low) / 15.0, low);
    if (type == KV_Q5_1) d = vec2((high - low) / 31.0, low);
    if (type == KV_IQ4_NL) d.x = largest / -127.0;
    uint stored = packHalf2x16(d);
    d = unpackHalf2x16(stored);
    float inverse = d.x != 0.0 ? 1.0 / d.x : 0.0, top = type == KV_Q5_0 || type == KV_Q5_1 ? 31.0 : 15.0;
    U32(cache).v[block] = stored;
    uint fifth = 0;
    for (uint w = 0; w < (type == KV_Q8_0 ? 8 : 4); w++) {
        uint word = 0, per = type == KV_Q8_0 ? 4 : 8;
        for (uint i = 0; i < per; i++) {
            float x = head_at(from + w * per + i);
            if (type == KV_Q8_0) word |= (uint(int(round(clamp(x * inverse, -127.0, 127.0)))) & 255) << (8 * i);
            else if (type == KV_IQ4_NL) word |= nearest_level(x * inverse) << (4 * i);
            else {
                uint q = uint(round(clamp((x - d.y) * inverse, 0.0, top)));
                word |= (q & 15) << (4 * i);
                fifth |= (q >> 4) << (8 * w + i);
            }
        }
        U32(cache).v[block + 1 + w] = word;
    }
    if (type == KV_Q5_0 || type == KV_Q5_1) U32(cache).v[block + 5] = fifth;
}
