// How many workgroups run at once, each with WORDS of shared memory: one that comes says so, and stays until no other has come for a
// while. Once one has left, all others leave, so that none that comes in its place is waited for.
#version 460
#include "lib/types.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint WORDS = 1;
#include "push/occupancy.glsl"
const uint HERE = 0, MOST = 1, LEFT = 2; // of counts
const uint QUIET = 20000, TURNS = 60000; // turns without another one, and in all: software devices end loops after 65,536
shared uint held[WORDS];

void main() {
    if (gl_LocalInvocationIndex == 0) {
        uint most = 0;
        if (atomicAdd(counts.v[LEFT], 0) == 0) {
            most = atomicAdd(counts.v[HERE], 1) + 1;
            atomicMax(counts.v[MOST], most);
            for (uint turn = 0, quiet = 0; turn < TURNS && quiet < QUIET && atomicAdd(counts.v[LEFT], 0) == 0; turn++) {
                uint now = atomicAdd(counts.v[MOST], 0);
                quiet = now > most ? 0 : quiet + 1;
                most = max(most, now);
            }
            atomicExchange(counts.v[LEFT], 1);
            atomicAdd(counts.v[HERE], uint(-1));
        }
        held[most % WORDS] = most; // memory that nobody uses would not be held
    }
    barrier();
    if (held[gl_LocalInvocationIndex % WORDS] == 0xdeadbeef) counts.v[LEFT] = 2;
}
