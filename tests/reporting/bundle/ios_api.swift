// Declarations of what the code for iOS calls, to compile it without Xcode. Bodies are empty: nothing runs.
//
// TensorFlowLite: tensorflow/lite/swift/Sources in the repository tensorflow/tensorflow (Interpreter.swift at 18be7438,
// Tensor.swift at 7a625349, MetalDelegate.swift at 5f3dac2e), which the pod TensorFlowLiteSwift is built from.
// UIKit and Core Graphics: https://developer.apple.com/documentation. CGFloat, CGPoint, CGSize and CGRect are Foundation's on Linux.

//// UIKit
@_exported import Foundation

public final class CGColorSpace {}

public func CGColorSpaceCreateDeviceRGB() -> CGColorSpace { CGColorSpace() }

public enum CGImageAlphaInfo: UInt32 {
  case none, premultipliedLast, premultipliedFirst, last, first, noneSkipLast, noneSkipFirst, alphaOnly
}

public struct CGBitmapInfo: OptionSet, Sendable {
  public let rawValue: UInt32
  public init(rawValue: UInt32) { self.rawValue = rawValue }
  public static let floatComponents = CGBitmapInfo(rawValue: 1 << 8)
}

public final class CGImage {
  public let bitsPerComponent = 8
  public let bitmapInfo = CGBitmapInfo(rawValue: 0)
}

public final class CGContext {
  public init?(
    data: UnsafeMutableRawPointer?, width: Int, height: Int, bitsPerComponent: Int, bytesPerRow: Int, space: CGColorSpace,
    bitmapInfo: UInt32
  ) {}
  public func draw(_ image: CGImage, in rect: CGRect, byTiling: Bool = false) {}
}

open class UIImage {
  public let size = CGSize(width: 0, height: 0)
  public let cgImage: CGImage? = nil
  open func draw(in rect: CGRect) {}
}

public final class UIColor: @unchecked Sendable {
  public static let white = UIColor()
  public func setFill() {}
}

open class UIGraphicsImageRendererFormat {
  public init() {}
  public var scale: CGFloat = 1
}

public final class UIGraphicsImageRendererContext {
  public func fill(_ rect: CGRect) {}
}

open class UIGraphicsImageRenderer {
  public init(size: CGSize, format: UIGraphicsImageRendererFormat) {}
  public func image(actions: (UIGraphicsImageRendererContext) -> Void) -> UIImage { UIImage() }
}

//// TensorFlowLite
import Foundation

public protocol Delegate: AnyObject {}

public final class MetalDelegate: Delegate {
  public init() {}
}

public struct Tensor {
  public struct Shape {
    public let dimensions: [Int]
  }

  public let shape: Shape
  public let data: Data
}

public final class Interpreter {
  public struct Options: Equatable, Hashable {
    public var threadCount: Int? = nil
    public var isXNNPackEnabled = false
    public init() {}
  }

  public init(modelPath: String, options: Options? = nil, delegates: [Delegate]? = nil) throws {}
  public func allocateTensors() throws {}
  public func invoke() throws {}
  public func output(at index: Int) throws -> Tensor { Tensor(shape: Tensor.Shape(dimensions: []), data: Data()) }
  @discardableResult public func copy(_ data: Data, toInputAt index: Int) throws -> Tensor { try output(at: index) }
}
