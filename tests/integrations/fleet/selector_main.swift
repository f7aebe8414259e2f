// Prints the tiers that the selector for iOS chooses, as JSON: arguments are tiers.json, the scenarios, and the text for the state of
// before. An iPhone says nothing of its cores.

import Foundation

func content(_ place: Int) throws -> Data {
  return try Data(contentsOf: URL(fileURLWithPath: CommandLine.arguments[place]))
}

func phone(_ facts: [String: Any]) -> Phone {
  var phone = Phone()
  phone.names = facts["names"] as? [String] ?? []
  phone.gpu = facts["gpu"] as? String ?? ""
  phone.memoryBytes = facts["memory_bytes"] as? Double ?? 0
  phone.ios = facts["version"] as? Double ?? .infinity
  return phone
}

func output(_ tier: Int, _ failing: [Int]) -> [Float] {
  if failing.contains(tier) { return [Float](repeating: .nan, count: tier == 2 ? 4 : 2) }
  return tier == 2 ? [0.25, 9, 0.76, 9] : [0.26, 0.74]
}

func choose(_ steps: [[Any]]) throws -> [Int] {
  let tiers = try content(1)
  var selector = try TierSelector(tiers, Phone())
  var chosen: [Int] = []
  for step in steps {
    switch step[0] as! String {
    case "place":
      selector.place(step[1] as! Double, hot: step[2] as! Bool)
    case "ran":
      for _ in 0..<(step[2] as! Int) { _ = selector.ran(step[1] as! Double, hot: step[3] as! Bool) }
    case "test":
      selector.selfTest { tier, _ in output(tier, step[1] as! [Int]) }
    default:
      let isSame = step[2] as! String == CommandLine.arguments[3]
      let stored = isSame ? selector.state() : step[2] as! String
      selector = try TierSelector(tiers, phone(step[1] as! [String: Any]), stored)
    }
    chosen.append(selector.tier ?? -1)
  }
  return chosen
}

let scenarios = try JSONSerialization.jsonObject(with: content(2)) as! [String: [[Any]]]
let tiers = try scenarios.mapValues(choose)
print(String(decoding: try JSONSerialization.data(withJSONObject: tiers), as: UTF8.self))
