// Declarations of what the code for iOS calls, to compile and run it without Xcode. A declaration is as published; its body is as
// simple as a test allows: it scales images by whole factors, and a model is a file with the outputs that an interpreter answers.
//
// TensorFlowLite: tensorflow/lite/swift/Sources in the repository tensorflow/tensorflow (Interpreter.swift at 639c8cdf,
// Tensor.swift at 7a625349, MetalDelegate.swift at 5f3dac2e), which the pod TensorFlowLiteSwift is built from. CDelegate is C's.
// UIKit and Core Graphics of iOS 26: https://developer.apple.com/documentation. CGFloat, CGPoint, CGSize and CGRect are
// Foundation's on Linux.

//// UIKit
@_exported import Foundation

public final class CGColorSpace: @unchecked Sendable {}

public func CGColorSpaceCreateDeviceRGB() -> CGColorSpace { CGColorSpace() }

public enum CGImageAlphaInfo: UInt32, @unchecked Sendable {
  case none, premultipliedLast, premultipliedFirst, last, first, noneSkipLast, noneSkipFirst, alphaOnly
}

public struct CGBitmapInfo: OptionSet, Sendable {
  public let rawValue: UInt32
  public init(rawValue: UInt32) { self.rawValue = rawValue }
  public static var floatComponents: CGBitmapInfo { CGBitmapInfo(rawValue: 1 << 8) }
}

/// Values of 0 to 255 in RGBA, row by row; of an image of 16 bits the upper 8.
struct Pixels: Decodable {
  let width: Int
  let height: Int
  var rgba: [UInt8]
  var bits = 8
  var info: UInt32 = 0

  /// Draws another one over all of this one.
  mutating func draw(_ other: Pixels) {
    for row in 0..<height {
      for column in 0..<width {
        let from = 4 * (row * other.height / height * other.width + column * other.width / width)
        let to = 4 * (row * width + column)
        let opacity = Int(other.rgba[from + 3])
        for channel in 0..<4 {
          let drawn = Int(other.rgba[from + channel]) * opacity + Int(rgba[to + channel]) * (255 - opacity)
          rgba[to + channel] = UInt8(drawn / 255)
        }
      }
    }
  }
}

public final class CGImage: @unchecked Sendable {
  let pixels: Pixels
  init(_ pixels: Pixels) { self.pixels = pixels }
  public var bitsPerComponent: Int { pixels.bits }
  public var bitmapInfo: CGBitmapInfo { CGBitmapInfo(rawValue: pixels.info) }
}

public final class CGContext {
  private let place: UnsafeMutableRawPointer?

  public init?(
    data: UnsafeMutableRawPointer?, width: Int, height: Int, bitsPerComponent: Int, bytesPerRow: Int, space: CGColorSpace,
    bitmapInfo: UInt32
  ) {
    guard bitsPerComponent == 8, bytesPerRow == 4 * width, bitmapInfo == CGImageAlphaInfo.noneSkipLast.rawValue else { return nil }
    place = data
  }

  public init?(
    data: UnsafeMutableRawPointer?, width: Int, height: Int, bitsPerComponent: Int, bytesPerRow: Int, space: CGColorSpace?,
    bitmapInfo: CGBitmapInfo
  ) { return nil }

  public func draw(_ image: CGImage, in rect: CGRect, byTiling: Bool = false) {
    image.pixels.rgba.withUnsafeBytes { place!.copyMemory(from: $0.baseAddress!, byteCount: $0.count) }
  }
}

/// What an image renderer draws into now, and the colour that it fills with.
nonisolated(unsafe) var canvas = Pixels(width: 0, height: 0, rgba: [])
nonisolated(unsafe) var colour: UInt8 = 0

open class UIImage: NSObject, @unchecked Sendable {
  private let image: CGImage
  public init(cgImage: CGImage) { image = cgImage }
  public init?(contentsOfFile path: String) {
    guard let file = FileManager.default.contents(atPath: path) else { return nil }
    guard let pixels = try? JSONDecoder().decode(Pixels.self, from: file) else { return nil }
    image = CGImage(pixels)
  }
  open var size: CGSize { CGSize(width: image.pixels.width, height: image.pixels.height) }
  open var cgImage: CGImage? { image }
  open func draw(in rect: CGRect) { canvas.draw(image.pixels) }
}

open class UIColor: NSObject, @unchecked Sendable {
  private let grey: UInt8
  init(grey: UInt8) { self.grey = grey }
  open class var white: UIColor { UIColor(grey: 255) }
  open func setFill() { colour = grey }
}

open class UIGraphicsRendererFormat: NSObject {}

open class UIGraphicsImageRendererFormat: UIGraphicsRendererFormat {
  open var scale: CGFloat = 3
}

open class UIGraphicsRendererContext: NSObject {
  open func fill(_ rect: CGRect) { canvas.rgba = canvas.rgba.map { _ in colour } }
}

open class UIGraphicsImageRendererContext: UIGraphicsRendererContext {}

open class UIGraphicsRenderer: NSObject {}

open class UIGraphicsImageRenderer: UIGraphicsRenderer {
  private let width: Int
  private let height: Int

  public init(size: CGSize, format: UIGraphicsImageRendererFormat) {
    width = Int(size.width * format.scale)
    height = Int(size.height * format.scale)
  }

  open func image(actions: (UIGraphicsImageRendererContext) -> Void) -> UIImage {
    canvas = Pixels(width: width, height: height, rgba: [UInt8](repeating: 0, count: 4 * width * height))
    actions(UIGraphicsImageRendererContext())
    return UIImage(cgImage: CGImage(canvas))
  }
}

//// TensorFlowLite
import Foundation

public protocol Delegate: AnyObject {}

public final class MetalDelegate: Delegate {
  public struct Options: Equatable, Hashable {
    public init() {}
  }

  public let options: Options
  public init(options: Options = Options()) { self.options = options }
}

public struct Tensor: Equatable, Hashable {
  public struct Shape: Equatable, Hashable {
    public let rank: Int
    public let dimensions: [Int]

    public init(_ dimensions: [Int]) {
      self.rank = dimensions.count
      self.dimensions = dimensions
    }
  }

  public let name: String
  public let shape: Shape
  public let data: Data
}

/// The model's file has the outputs of each run, for each interpreter that a program makes. The inputs are appended to a file beside it.
public final class Interpreter {
  public struct Options: Equatable, Hashable {
    public var threadCount: Int? = nil
    public var isXNNPackEnabled: Bool = false
    public init() {}
  }

  struct Output: Decodable {
    let shape: [Int]
    let values: [Float]
  }

  public let options: Options?
  public let delegates: [Delegate]?
  private nonisolated(unsafe) static var made = 0
  private let outputs: [[Output]]
  private let inputs: String
  private var runs = 0
  private var input = Data()
  private var isReady = false

  public convenience init(modelPath: String, options: Options? = nil, delegates: [Delegate]? = nil) throws {
    let file = try Data(contentsOf: URL(fileURLWithPath: modelPath))
    let answers = try JSONDecoder().decode([[[Output]]].self, from: file)
    self.init(answers[Self.made], inputs: modelPath + ".inputs", options, delegates)
    Self.made += 1
  }

  private init(_ outputs: [[Output]], inputs: String, _ options: Options?, _ delegates: [Delegate]?) {
    self.outputs = outputs
    self.inputs = inputs
    self.options = options
    self.delegates = delegates
  }

  public func allocateTensors() throws { isReady = true }

  public func invoke() throws {
    guard isReady else { throw CocoaError(.featureUnsupported) }
    let before = FileManager.default.contents(atPath: inputs) ?? Data()
    try (before + input).write(to: URL(fileURLWithPath: inputs))
    runs += 1
  }

  public func output(at index: Int) throws -> Tensor {
    let output = outputs[(runs - 1) % outputs.count][index]
    let data = output.values.withUnsafeBytes { Data($0) }
    return Tensor(name: "output", shape: Tensor.Shape(output.shape), data: data)
  }

  @discardableResult
  public func copy(_ data: Data, toInputAt index: Int) throws -> Tensor {
    input = Data(Array(data)) // the caller's bytes are no copy
    return Tensor(name: "input", shape: Tensor.Shape([data.count / 4]), data: input)
  }
}
