// Choose the file of a fleet for this phone: by rules, by a measurement, and by the times of its runs.
// Needs Foundation only. tiers.json is all that it reads; see README.md beside it.
//
//   let selector = try TierSelector(Data(contentsOf: url), Phone(names: [machine], memoryBytes: memory), stored)
//   if selector.isNew {
//     selector.selfTest { tier, inputs in outputs }  // floats of an image, flat
//     selector.measure { tier in milliseconds }      // one run
//   }
//   selector.file                         // file to load; nil: no file passed the self-test, show no answers
//   selector.ran(milliseconds, hot: hot)  // after each run; true: load selector.file again
//   stored = selector.state()

import Foundation

/// What the app knows of its phone; leave out what it does not. The name is hw.machine, such as "iPhone14,5".
struct Phone {
  var names: [String] = []
  var gpu = ""
  var memoryBytes: Double = 0
  var ios: Double = .infinity
}

/// The content of tiers.json.
struct Tiers: Codable {
  struct Input: Codable {
    let size: Int
    let mean: Float
    let std: Float
  }

  struct Tier: Codable {
    let file: String
    let memory_bytes: Double?
    let input: Input
    let expected: [[Float]]
  }

  struct Known: Codable {
    let names: [String]
    let gpu: String
    let ms: [Double]
    let sure_ms: [Double]
  }

  struct Change: Codable {
    let gain: Double
    let factor: Double
  }

  struct Rules: Codable {
    let up: Double
    let late: Double
    let window: Int
    let memory_share: Double
  }

  struct Vectors: Codable {
    let side: Int
    let pixels: [Data]
    let stride: [Int]
    let tolerance: [Float]
  }

  struct Requires: Codable {
    let ios: Double
  }

  let id: String
  let budget_ms: Double
  let window_ms: Double
  let measured_tier: Int
  let requires: Requires
  let rules: Rules
  let measuring: [Change]
  let phones: [Known]
  let tiers: [Tier]
  let vectors: Vectors
}

/// What is stored between two starts of the app.
struct Stored: Codable {
  var id: String
  var ratio: Double?
  var highest: Int
  var failed: [Int]
  var tier: Int?
  var placed: String
}

/// The tier of this phone; 0 is the floor, a higher one is more accurate and slower. Call it from one thread.
final class TierSelector {
  private static let makers = "^(qualcomm|mediatek|samsung|hisilicon|google|unisoc|spreadtrum|apple)"

  private let tiers: Tiers
  private let phone: Phone
  private var known: Tiers.Known?
  private(set) var knownBy = ""
  private var ratio: Double?
  private var highest: Int
  private var failed: [Int] = []
  private var times: [Double] = []
  /// The phone was hot: measure it again later.
  private(set) var again = false
  private(set) var tier: Int?
  private(set) var isNew = true

  init(_ document: Data, _ phone: Phone, _ stored: String = "") throws {
    tiers = try JSONDecoder().decode(Tiers.self, from: document)
    self.phone = phone
    highest = tiers.tiers.count - 1
    recognise()
    isNew = !restore(stored)
    if isNew { tier = best() }
  }

  /// The name of the file to load; nil if every file failed the self-test.
  var file: String? {
    return tier.map { tiers.tiers[$0].file }
  }

  /// Milliseconds that a run of a tier does not exceed with the confidence; infinite if unknown.
  func expectedMs(_ tier: Int) -> Double {
    guard let known = known else { return .infinity }
    guard let ratio = ratio else { return known.sure_ms[tier] }
    let change = tiers.measuring[tier]
    return known.ms[tier] * pow(ratio, change.gain) * change.factor
  }

  /// Run the test vectors through the file of the tier; one that computes something else is left for the next.
  @discardableResult
  func selfTest(_ run: (Int, [Float]) throws -> [Float]) -> Int? {
    while let current = tier {
      if passes(current, run) { return current }
      failed.append(current)
      tier = best()
    }
    return nil
  }

  /// Time the fastest file, and choose by the ratio to its prediction. A hot phone is to be measured again.
  @discardableResult
  func measure(hot: Bool = false, _ timeRun: (Int) -> Double) -> Int? {
    _ = timeRun(tiers.measured_tier)  // the first run is slower than all others
    var found: [Double] = []
    while found.count < 3 || found.reduce(0, +) < tiers.window_ms { found.append(timeRun(tiers.measured_tier)) }
    found.sort()
    let middle = found.count / 2
    return place(found.count % 2 == 1 ? found[middle] : (found[middle - 1] + found[middle]) / 2, hot: hot)
  }

  /// Choose by the median time of the fastest file; a better tier than before, also by rules, needs a margin.
  @discardableResult
  func place(_ milliseconds: Double, hot: Bool = false) -> Int? {
    let measured = tiers.measured_tier
    let before = tier
    let remembered = ratio
    if known == nil || knownBy == "time" {
      let apart = { (each: Tiers.Known) -> Double in abs(log(each.ms[measured] / milliseconds)) }
      known = tiers.phones.min { apart($0) < apart($1) }
      knownBy = "time"
    }
    guard let placed = known else { return tier }
    ratio = milliseconds / placed.ms[measured]
    var found = best()
    if let most = found, let from = before, most > from {
      found = usable().last { from <= $0 && $0 <= most && clearly($0) } ?? from
    }
    tier = found
    again = hot
    if hot { ratio = remembered }
    return tier
  }

  /// Take the time of a run; true if the budget is missed and the tier is now a lower one. The lower tier is kept for
  /// good, but on a hot phone only until the app starts again.
  func ran(_ milliseconds: Double, hot: Bool = false) -> Bool {
    times.append(milliseconds)
    guard let current = tier, times.count >= tiers.rules.window else { return false }
    times.sort()
    let place = Int((0.9 * Double(times.count)).rounded(.up)) - 1
    let slow = times[place] > tiers.rules.late * tiers.budget_ms
    times = []
    guard slow, let lower = usable().last(where: { $0 < current }) else { return false }
    tier = lower
    again = again || hot
    if !hot { highest = lower }
    return true
  }

  /// What to store: the choice is remembered until the files change.
  func state() -> String {
    let placed = knownBy == "time" ? known?.names.first ?? "" : ""
    let kept = Stored(
      id: tiers.id, ratio: ratio, highest: highest, failed: failed, tier: again ? nil : tier, placed: placed)
    guard let text = try? JSONEncoder().encode(kept) else { return "" }
    return String(decoding: text, as: UTF8.self)
  }

  private func restore(_ stored: String) -> Bool {
    guard let kept = try? JSONDecoder().decode(Stored.self, from: Data(stored.utf8)), kept.id == tiers.id else {
      return false
    }
    if !kept.placed.isEmpty {
      guard let placed = tiers.phones.first(where: { $0.names.contains(kept.placed) }) else { return false }
      known = placed
      knownBy = "time"
    }
    ratio = kept.ratio
    highest = kept.highest
    failed = kept.failed
    again = kept.tier == nil && best() != nil
    tier = kept.tier ?? best()
    return true
  }

  private func usable() -> [Int] {
    let all = Array(tiers.tiers.indices)
    let most = tiers.rules.memory_share * phone.memoryBytes
    var fits = all.filter { $0 <= highest || $0 == 0 }
    if phone.memoryBytes > 0 { fits = fits.filter { (tiers.tiers[$0].memory_bytes ?? 0) <= most } }
    if phone.ios < tiers.requires.ios { fits = Array(fits.prefix(1)) }
    let found = fits.filter { !failed.contains($0) }
    return found.isEmpty ? Array(all.filter { !failed.contains($0) }.prefix(1)) : found
  }

  private func best() -> Int? {
    let some = usable()
    return some.last { expectedMs($0) <= tiers.budget_ms } ?? some.first
  }

  private func clearly(_ tier: Int) -> Bool {
    return expectedMs(tier) <= tiers.rules.up * tiers.budget_ms
  }

  private func passes(_ tier: Int, _ run: (Int, [Float]) throws -> [Float]) -> Bool {
    let stride = tiers.vectors.stride[tier]
    for (place, pixels) in tiers.vectors.pixels.enumerated() {
      let expected = tiers.tiers[tier].expected[place]
      guard let all = try? run(tier, inputs(tier, pixels)) else { return false }
      let found = all.enumerated().filter { $0.offset % stride == 0 }.map { $0.element }
      // A value that is not a number is near to none.
      let near = zip(found, expected).allSatisfy { abs($0.0 - $0.1) <= tiers.vectors.tolerance[tier] }
      if found.count != expected.count || !near { return false }
    }
    return true
  }

  /// A test vector as a file takes it: its pixels repeated up to the side of the input, normalised.
  func inputs(_ tier: Int, _ pixels: Data) -> [Float] {
    let input = tiers.tiers[tier].input
    let side = tiers.vectors.side
    let small = [UInt8](pixels)
    var values = [Float]()
    values.reserveCapacity(input.size * input.size * 3)
    for row in 0..<input.size {
      for column in 0..<input.size {
        let from = 3 * (side * (row * side / input.size) + column * side / input.size)
        for channel in 0..<3 { values.append((Float(small[from + channel]) - input.mean) / input.std) }
      }
    }
    return values
  }

  private func recognise() {
    let names = phone.names.map(TierSelector.plain).filter { !$0.isEmpty }
    let gpu = TierSelector.plain(phone.gpu)
    if let named = tiers.phones.first(where: { $0.names.contains(where: names.contains) }) {
      known = named
      knownBy = "name"
    } else if let alike = tiers.phones.first(where: { !$0.gpu.isEmpty && gpu.contains($0.gpu) }) {
      known = alike  // the slowest phones are first
      knownBy = "gpu"
    }
  }

  /// A name for comparison: small letters, digits and plus, without the maker; of iPhones the first number.
  static func plain(_ name: String) -> String {
    let first = name.split(separator: ",").first.map(String.init) ?? ""
    return first.lowercased()
      .replacingOccurrences(of: "\\((?:tm|r)\\)|[^a-z0-9+]", with: "", options: .regularExpression)
      .replacingOccurrences(of: makers, with: "", options: .regularExpression)
  }
}
