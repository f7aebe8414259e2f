import com.example.tiers.Core
import com.example.tiers.Phone
import com.example.tiers.TierSelector
import java.io.File
import org.json.JSONArray
import org.json.JSONObject

fun texts(array: JSONArray?) = List(array?.length() ?: 0) { array!!.getString(it) }

fun phone(facts: JSONObject): Phone {
    val cores = facts.optJSONArray("cores")
    val rows = List(cores?.length() ?: 0) { cores!!.getJSONObject(it) }
    return Phone(
        texts(facts.optJSONArray("names")),
        facts.optString("gpu", ""),
        rows.map { Core(it.getString("part"), it.getDouble("mhz")) },
        facts.optLong("memory_bytes", 0),
        if (facts.optString("system") == "android_api") facts.getInt("version") else Int.MAX_VALUE
    )
}

fun output(tier: Int, failing: JSONArray): FloatArray {
    val fails = List(failing.length()) { failing.getInt(it) }.contains(tier)
    if (fails) return FloatArray(if (tier == 2) 4 else 2) { Float.NaN }
    return if (tier == 2) floatArrayOf(0.25f, 9f, 0.76f, 9f) else floatArrayOf(0.26f, 0.74f)
}

fun main(args: Array<String>) {
    val tiers = JSONObject(File(args[0]).readText())
    val scenarios = JSONObject(File(args[1]).readText())
    val found = JSONObject()
    for (name in scenarios.keys()) {
        val steps = scenarios.getJSONArray(name)
        var selector: TierSelector? = null
        val chosen = JSONArray()
        for (place in 0 until steps.length()) {
            val step = steps.getJSONArray(place)
            when (step.getString(0)) {
                "place" -> selector!!.place(step.getDouble(1), step.getBoolean(2))
                "ran" -> for (run in 0 until step.getInt(2)) selector!!.ran(step.getDouble(1), step.getBoolean(3))
                "test" -> selector!!.selfTest { tier, _ -> output(tier, step.getJSONArray(1)) }
                else -> {
                    val stored = if (step.getString(2) == args[2]) selector!!.state() else step.getString(2)
                    selector = TierSelector(tiers, phone(step.getJSONObject(1)), stored)
                }
            }
            chosen.put(selector!!.tier ?: -1)
        }
        found.put(name, chosen)
    }
    println(found)
}
