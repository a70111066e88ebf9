// replay/prioritized.hpp: priorities of the transitions of a ring. The native form of
// cule/replay/prioritized.py. Torch computes the powers, because another implementation would
// differ in their last bits, so each operation here begins or ends at a power.
#pragma once

#include <cmath>
#include <limits>

#include "replay/priority_sums.hpp"
#include "replay/ring.hpp"

namespace cule {

constexpr double kTiny = std::numeric_limits<double>::min();

// Priorities of either floating type.
struct Priorities {
  const float* floats;  // or null
  const double* doubles;
  i64 size;

  double operator[](i64 k) const { return floats ? double(floats[k]) : doubles[k]; }
};

// What a buffer remembers of the priorities that it was given.
struct PrioritiesSeen {
  double* largest;
  i64* num_rejected;
  double limit;  // larger priorities count as this

  // Counts a priority, or rejects it; whether it is valid (not negative, not NaN).
  bool accept(double priority) const {
    if (!(priority >= 0.0)) {
      ++*num_rejected;
      return false;
    }
    see(priority);
    return true;
  }

  void see(double priority) const {
    const double value = priority < limit ? priority : limit;
    if (value > *largest) *largest = value;
  }
};

// Copies priorities, and replaces invalid ones by `fallback`.
inline void accept(const Priorities& priorities, double fallback, const PrioritiesSeen& seen,
                   double* accepted) {
  for (i64 k = 0; k < priorities.size; ++k) {
    const bool is_valid = seen.accept(priorities[k]);
    accepted[k] = is_valid ? priorities[k] : fallback;
    if (!is_valid) seen.see(fallback);
  }
}

// Mass of a priority above 0, from its power.
inline i64 mass_of(double power, i64 max_mass) {
  const double wanted = power * double(kMassScale);
  const double most = double(max_mass);
  return i64(std::nearbyint(wanted < 1.0 ? 1.0 : wanted > most ? most : wanted));
}

// Enters new transitions and removes old ones after the head has advanced by T timesteps.
// powers: [T, N], those of the first priorities; priorities: [T, N] as given, which mark zeros.
inline void follow_head(PrioritySums& sums, const Ring& ring, i64 stack, i64 n_step, i64 num_steps,
                        const Priorities& priorities, const double* powers, i64 max_mass) {
  const i64 n = ring.num_envs;
  for (i64 t = 0; t < num_steps; ++t) {
    const i64 old = *ring.head - (num_steps - 1 - t) - ring.num_timesteps + stack - 1;
    if (old < 0) continue;
    for (i64 e = 0; e < n; ++e) sums.set(old % ring.num_slots * n + e, 0);
  }
  for (i64 t = 0; t < num_steps; ++t) {
    const i64 timestep = *ring.head - (num_steps - 1 - t) - n_step;
    if (timestep < 0) continue;
    const i64 cell = timestep % ring.num_slots * n;
    for (i64 e = 0; e < n; ++e) {
      const i64 k = t * n + e;
      const bool is_zero = priorities[k] == 0.0;
      const bool is_invalid = ring.cells.flags[cell + e] & kInvalid;
      sums.set(cell + e, is_zero || is_invalid ? 0 : mass_of(powers[k], max_mass));
    }
  }
}

// Sets the priorities of transitions; if an id occurs several times, its largest priority counts.
// Transitions that have left the buffer and ignored steps change nothing, invalid priorities only
// their count.
inline void update_priorities(PrioritySums& sums, const Ring& ring, const ValidRange& valid,
                              const i64* ids, const Priorities& priorities, const double* powers,
                              i64 max_mass, const PrioritiesSeen& seen) {
  const auto is_live = [&](i64 k) {
    return valid.contains(floor_div(ids[k], ring.num_envs)) &&
           !(ring.cells.flags[cell_of(ring, ids[k])] & kInvalid);
  };
  const auto leaf_of = [&](i64 k) {
    return is_live(k) && priorities[k] >= 0.0 ? cell_of(ring, ids[k]) : sums.waste();
  };
  for (i64 k = 0; k < priorities.size; ++k) {
    if (is_live(k)) seen.accept(priorities[k]);
    sums.set(leaf_of(k), 0);
  }
  for (i64 k = 0; k < priorities.size; ++k) {
    const i64 leaf = leaf_of(k);
    const i64 mass = priorities[k] > 0.0 ? mass_of(powers[k], max_mass) : 0;
    if (mass > sums.leaf(leaf)) sums.set(leaf, mass);
  }
}

// Samples ids in proportion to their mass, one from each of `size` equal parts of the total.
inline void sample_ids(const PrioritySums& sums, const Ring& ring, const double* uniform, i64 size,
                       i64* ids) {
  for (i64 k = 0; k < size; ++k)
    ids[k] = id_of(ring, sums.at((double(k) + uniform[k]) / double(size)));
}

// Computes the probabilities of transitions and the bases of their importance weights, which are
// powers of these. Sets the weight to 0 where the probability is 0.
inline void weigh(const PrioritySums& sums, const Ring& ring, const ValidRange& valid,
                  const i64* ids, i64 size, float* weights, float* probabilities, double* bases) {
  const double total = sums.total() < 1 ? 1.0 : double(sums.total());
  for (i64 k = 0; k < size; ++k) {
    const double probability = double(sums.leaf(cell_of(ring, ids[k]))) / total;
    if (!(probability > 0.0)) weights[k] = 0.0f;
    probabilities[k] = float(probability);
    const double base = double(valid.count) * probability;
    bases[k] = base < kTiny ? kTiny : base;
  }
}

// Replaces nonzero weights by their powers over the largest of them.
inline void finish_weights(const double* powers, i64 size, float* weights) {
  double largest = kTiny;
  for (i64 k = 0; k < size; ++k) {
    const bool counts = weights[k] > 0.0f;
    // NaN stays the largest, as in torch.
    if (counts && !(powers[k] <= largest)) largest = powers[k];
    if (counts && std::isnan(powers[k])) break;
  }
  for (i64 k = 0; k < size; ++k)
    weights[k] = float((weights[k] > 0.0f ? powers[k] : 0.0) / largest);
}

}  // namespace cule
