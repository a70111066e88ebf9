// replay/prioritized.hpp: priorities of the transitions of a ring. The native form of
// cule/replay/prioritized.py, but for powers: those are torch's, whose last bits are its own, so
// every operation here ends or begins where one is taken.
#pragma once

#include <cmath>
#include <limits>

#include "replay/priority_sums.hpp"
#include "replay/ring.hpp"

namespace cule {

constexpr double kTiny = std::numeric_limits<double>::min();

// Priorities of either type.
struct Priorities {
  const float* floats;  // or null
  const double* doubles;
  i64 size;

  double operator[](i64 k) const { return floats ? double(floats[k]) : doubles[k]; }
};

// Priorities given so far, as Python holds them.
struct Given {
  double* largest;
  i64* refused;
};

// Priorities with `instead` in place of refused ones; counts them and the largest. A priority
// counts at most `most`.
inline void accept(const Given& given, const Priorities& priorities, double instead, double most,
                   double* kept) {
  for (i64 k = 0; k < priorities.size; ++k) {
    const bool is_refused = !(priorities[k] >= 0.0);  // true of NaN as well
    *given.refused += is_refused;
    kept[k] = is_refused ? instead : priorities[k];
  }
  for (i64 k = 0; k < priorities.size; ++k) {
    const double value = kept[k] < most ? kept[k] : most;
    if (value > *given.largest) *given.largest = value;
  }
}

// What a priority above 0 weighs, from its power.
inline i64 units_of(double power, i64 max_units) {
  const double wanted = power * double(kPriorityUnits);
  const double most = double(max_units);
  return i64(std::nearbyint(wanted < 1.0 ? 1.0 : wanted > most ? most : wanted));
}

// Lets new rows in and old rows out after the head has moved by T rows. powers: [T, N] of the first
// priorities; priorities: these, with those that are refused or 0 among them. What was refused has
// the power of what it counts as.
inline void follow_head(PrioritySums& sums, const Ring& ring, i64 stack, i64 n_step, i64 num_steps,
                        const Priorities& priorities, const double* powers, i64 max_units) {
  const i64 n = ring.num_envs;
  for (i64 t = 0; t < num_steps; ++t) {
    const i64 old = *ring.head - (num_steps - 1 - t) - ring.num_rows + stack - 1;
    if (old < 0) continue;
    for (i64 e = 0; e < n; ++e) sums.set(old % ring.num_slots * n + e, 0);
  }
  for (i64 t = 0; t < num_steps; ++t) {
    const i64 row = *ring.head - (num_steps - 1 - t) - n_step;
    if (row < 0) continue;
    const i64 cell = row % ring.num_slots * n;
    for (i64 e = 0; e < n; ++e) {
      const i64 k = t * n + e;
      const bool is_zero = priorities[k] == 0.0;
      const bool is_invalid = ring.rows.flags[cell + e] & kInvalid;
      sums.set(cell + e, is_zero || is_invalid ? 0 : units_of(powers[k], max_units));
    }
  }
}

// Sets the priorities of some transitions; of several for one the largest counts. Those that have
// left the buffer, are ignored steps or get a refused priority keep what they have.
inline void update_priorities(PrioritySums& sums, const Ring& ring, const ValidRows& valid,
                              const i64* ids, const Priorities& priorities, const double* powers,
                              i64 max_units) {
  const auto leaf_of = [&](i64 k) {
    const i64 cell = cell_of(ring, ids[k]);
    const bool is_live = valid.contains(floor_div(ids[k], ring.num_envs));
    const bool is_invalid = ring.rows.flags[cell] & kInvalid;
    return is_live && !is_invalid && priorities[k] >= 0.0 ? cell : sums.waste();
  };
  for (i64 k = 0; k < priorities.size; ++k) sums.set(leaf_of(k), 0);
  for (i64 k = 0; k < priorities.size; ++k) {
    const i64 leaf = leaf_of(k);
    const i64 units = priorities[k] > 0.0 ? units_of(powers[k], max_units) : 0;
    if (units > sums.leaf(leaf)) sums.set(leaf, units);
  }
}

// Ids of transitions in proportion to their weight: one from each of `size` equal parts of the
// total.
inline void draw_ids(const PrioritySums& sums, const Ring& ring, const double* uniform, i64 size,
                     i64* ids) {
  for (i64 k = 0; k < size; ++k)
    ids[k] = id_of(ring, sums.at((double(k) + uniform[k]) / double(size)));
}

// Probability that a draw is uniform; of a mixture 1 where all priorities are 0.
inline double uniform_share(const PrioritySums& sums, double uniform_mixture) {
  return uniform_mixture > 0.0 && sums.total() == 0 ? 1.0 : uniform_mixture;
}

// Puts uniform draws in place of a share of some ids. uniform: of each id whether, then of each
// which.
inline void mix_ids(const Ring& ring, const ValidRows& valid, double share, const double* uniform,
                    i64 size, i64* ids) {
  for (i64 k = 0; k < size; ++k) {
    if (uniform[k] < share) ids[k] = uniform_id(ring, valid, uniform[size + k]);
  }
}

// Probabilities of some transitions, and what their weights are powers of. Weights of what has none
// become 0.
inline void weigh(const PrioritySums& sums, const Ring& ring, const ValidRows& valid, double share,
                  const i64* ids, i64 size, float* weights, float* probabilities, double* bases) {
  const double total = sums.total() < 1 ? 1.0 : double(sums.total());
  for (i64 k = 0; k < size; ++k) {
    double probability = double(sums.leaf(cell_of(ring, ids[k]))) / total;
    if (share > 0.0) probability = (1.0 - share) * probability + share / double(valid.count);
    if (!(probability > 0.0)) weights[k] = 0.0f;
    probabilities[k] = float(probability);
    const double base = double(valid.count) * probability;
    bases[k] = base < kTiny ? kTiny : base;
  }
}

// Importance weights from their powers, over the largest of them. `weights` are 0 where a
// transition is not to be learnt from, and stay so.
inline void finish_weights(const double* powers, i64 size, float* weights) {
  double largest = kTiny;
  for (i64 k = 0; k < size; ++k) {
    const bool counts = weights[k] > 0.0f;
    // Not a number stays so, whatever else there is.
    if (counts && !(powers[k] <= largest)) largest = powers[k];
    if (counts && std::isnan(powers[k])) break;
  }
  for (i64 k = 0; k < size; ++k)
    weights[k] = float((weights[k] > 0.0f ? powers[k] : 0.0) / largest);
}

}  // namespace cule
