// Prints as JSON what the code for iOS answers to the images of the command line, by class; an error is its description.

import Foundation
import UIKit

func answer(_ call: (UIImage) throws -> Any) -> [Any] {
  return CommandLine.arguments.dropFirst().map { path in
    do { return try call(UIImage(contentsOfFile: path)!) } catch { return error.localizedDescription }
  }
}

func pairs(_ answers: [(String, Float)]) -> [[Any]] {
  return answers.map { [$0.0, Double($0.1)] }
}

func numbers(_ values: CGFloat...) -> [Any] { return values.map(Double.init) }

func rows<Value>(_ values: [Value], of columns: Int) -> [[Value]] {
  return stride(from: 0, to: values.count, by: columns).map { Array(values[$0..<($0 + columns)]) }
}

let classifiers = (try Classifier0cpu(), try Classifier1cpu(), try Classifier2cpu(), try Classifier3cpu())
let severalTagger = try Tagger4cpu()
let classifier = try Classifier5cpu()
let detector = try Detector6cpu()
let counter = try Counter7cpu()
let segmenter = try Segmenter8cpu()
let anomalies = try AnomalyDetector9cpu()
let tagger = try Tagger10cpu()

let answers: [String: Any] = [
  "Classifier0": answer { pairs(try classifiers.0.classify($0)) },
  "Classifier1": answer { pairs(try classifiers.1.classify($0)) },
  "Classifier2": answer { pairs(try classifiers.2.classify($0)) },
  "Classifier2 shows": answer { try classifiers.2.mayShow($0) },
  "Classifier3": answer { pairs(try classifiers.3.classify($0)) },
  "Classifier3 shows": answer { try classifiers.3.mayShow($0) },
  "Tagger4": answer { pairs(try severalTagger.tag($0)) },
  "Classifier5": answer { pairs(try classifier.classify($0)) },
  "Detector6": answer {
    try detector.detect($0).map { object in
      let (origin, size) = (object.box.origin, object.box.size)
      return [object.label]
        + numbers(CGFloat(object.score), origin.y, origin.x, origin.y + size.height, origin.x + size.width)
    }
  },
  "Counter7": answer { try counter.count($0).map { [$0.label] + numbers(CGFloat($0.score), $0.centre.y, $0.centre.x) } },
  // As in Python, a pixel of the image has a place, and the image is twice as wide as what the model sees.
  "Segmenter8": answer { rows(try segmenter.segment($0).flatMap { [$0, $0] }, of: 8) },
  "AnomalyDetector9": answer {
    let (heat, score, isAnomaly) = try anomalies.detect($0)
    return [rows(heat.map(Double.init), of: 4), Double(score), isAnomaly]
  },
  "Tagger10": answer { pairs(try tagger.tag($0)) },
]
print(String(decoding: try JSONSerialization.data(withJSONObject: answers), as: UTF8.self))
