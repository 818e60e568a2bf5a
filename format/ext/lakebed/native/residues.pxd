"""Polynomials over the numbers modulo 2**61 - 1, evaluated at secret points: a hash whose collisions no one can find.

Words w1, w2, ... below the modulus become ((1 * r + w1) * r + w2) * r + ... for a random r. Two different sequences of
n words, chosen without knowing r, collide with a probability of at most n / 2**61 (Carter and Wegman, "Universal
classes of hash functions"; Dietzfelbinger and others, "Polynomial hash functions are reliable"); a hash uses two
points.
"""

from libc.stdint cimport uint64_t


cdef extern from *:
    """
    #include <stdint.h>

    #define DL_MODULUS (((uint64_t)1 << 61) - 1)

    /* h * r + w modulo 2**61 - 1, for h, r and w below it. */
    static inline uint64_t dl_absorbed(uint64_t h, uint64_t r, uint64_t w)
    {
        unsigned __int128 product = (unsigned __int128)h * r + w;
        uint64_t sum = (uint64_t)(product & DL_MODULUS) + (uint64_t)(product >> 61);
        return sum >= DL_MODULUS ? sum - DL_MODULUS : sum;
    }

    /* A bijection of 64-bit words whose every output bit depends on every input bit (xor, shift, odd multiples). */
    static inline uint64_t dl_scattered(uint64_t h)
    {
        h ^= h >> 32;
        h *= UINT64_C(0xD6E8FEB86659FD93);
        h ^= h >> 32;
        h *= UINT64_C(0xD6E8FEB86659FD93);
        h ^= h >> 32;
        return h;
    }

    static inline uint64_t dl_scaled(uint64_t h, uint64_t n)
    {
        return (uint64_t)(((unsigned __int128)h * n) >> 64);
    }

    #define dl_prefetch(address) __builtin_prefetch(address)
    """
    const uint64_t MODULUS "DL_MODULUS"
    uint64_t absorbed "dl_absorbed"(uint64_t h, uint64_t r, uint64_t w) noexcept nogil
    uint64_t scattered "dl_scattered"(uint64_t h) noexcept nogil
    uint64_t scaled "dl_scaled"(uint64_t h, uint64_t n) noexcept nogil
    void prefetch "dl_prefetch"(const void* address) noexcept nogil
