// Packet trains over one direction of an ns-3 point-to-point link with a drop-tail queue.
//
// Standard input, trains one after the other:
//
//     train RATE DELAY QUEUE sends|link     bits a second; nanoseconds; packets (`10p`) or bytes (`15000B`)
//     AT SIZE                               nanoseconds from the train's start, ascending; bytes of an IP packet
//
// Standard output: `train`, then for each packet in the order of the input when its last bit arrives, in nanoseconds,
// or `drop`. What comes first in an instant in which a packet is sent and another's transmission ends is said by the
// fourth word: the sends, as ns-3 does with events that were scheduled earlier, or the link.

#include "ns3/core-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

#include <cstdint>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace
{

constexpr uint16_t IPV4 = 0x0800;
constexpr int64_t DROPPED = -1;

struct Packet
{
    int64_t at;
    uint32_t size;
};

struct Train
{
    uint64_t rate = 0;
    int64_t delay = 0;
    std::string queue;
    bool sendsFirst = false;
    std::vector<Packet> packets;
};

// Two nodes, the link between them, and what arrives.
class Line
{
  public:
    explicit Line(const Train& train)
        : m_train(train),
          m_arrivals(train.packets.size(), DROPPED)
    {
        auto channel = ns3::CreateObject<ns3::PointToPointChannel>();
        channel->SetAttribute("Delay", ns3::TimeValue(ns3::NanoSeconds(train.delay)));
        m_sender = device(channel);
        ns3::Ptr<ns3::PointToPointNetDevice> receiver = device(channel);
        receiver->SetReceiveCallback(ns3::MakeCallback(&Line::receive, this));
    }

    // The arrivals, when nothing more happens.
    std::vector<int64_t> run()
    {
        for (size_t index = 0; index < m_train.packets.size(); ++index)
        {
            const ns3::Time at = ns3::NanoSeconds(m_train.packets[index].at);
            if (m_train.sendsFirst)
            {
                ns3::Simulator::Schedule(at, &Line::send, this, index);
            }
            else
            {
                ns3::Simulator::Schedule(at, &Line::sendLast, this, index);
            }
        }
        ns3::Simulator::Run();
        return m_arrivals;
    }

  private:
    ns3::Ptr<ns3::PointToPointNetDevice> device(ns3::Ptr<ns3::PointToPointChannel> channel) const
    {
        auto node = ns3::CreateObject<ns3::Node>();
        auto queue = ns3::CreateObject<ns3::DropTailQueue<ns3::Packet>>();
        queue->SetMaxSize(ns3::QueueSize(m_train.queue));
        auto device = ns3::CreateObject<ns3::PointToPointNetDevice>();
        device->SetAddress(ns3::Mac48Address::Allocate());
        device->SetDataRate(ns3::DataRate(m_train.rate));
        device->SetQueue(queue);
        node->AddDevice(device);
        device->Attach(channel);
        return device;
    }

    // An event made in this instant comes after those that were made before it.
    void sendLast(size_t index)
    {
        ns3::Simulator::ScheduleNow(&Line::send, this, index);
    }

    void send(size_t index)
    {
        auto packet = ns3::Create<ns3::Packet>(m_train.packets[index].size);
        m_known.emplace(packet->GetUid(), index);
        m_sender->Send(packet, m_sender->GetBroadcast(), IPV4);
    }

    bool receive(ns3::Ptr<ns3::NetDevice>, ns3::Ptr<const ns3::Packet> packet, uint16_t, const ns3::Address&)
    {
        const size_t index = m_known.at(packet->GetUid());
        if (packet->GetSize() != m_train.packets[index].size || m_arrivals[index] != DROPPED)
        {
            throw std::runtime_error("a packet arrived twice, or in another size");
        }
        m_arrivals[index] = ns3::Simulator::Now().GetNanoSeconds();
        return true;
    }

    const Train& m_train;
    std::vector<int64_t> m_arrivals;
    std::unordered_map<uint64_t, size_t> m_known;
    ns3::Ptr<ns3::PointToPointNetDevice> m_sender;
};

std::vector<Train> read(std::istream& input)
{
    std::vector<Train> trains;
    std::string text;
    for (size_t line = 1; std::getline(input, text); ++line)
    {
        std::istringstream words(text);
        std::string rest;
        bool good;
        if (text.rfind("train ", 0) == 0)
        {
            Train train;
            std::string first;
            good = bool(words >> rest >> train.rate >> train.delay >> train.queue >> first) && train.rate > 0;
            good = good && (first == "sends" || first == "link");
            train.sendsFirst = first == "sends";
            trains.push_back(train);
        }
        else
        {
            Packet packet{};
            good = !trains.empty() && bool(words >> packet.at >> packet.size);
            if (good)
            {
                trains.back().packets.push_back(packet);
            }
        }
        if (!good || words >> rest)
        {
            throw std::runtime_error("line " + std::to_string(line) + ": neither a train nor a packet of one");
        }
    }
    return trains;
}

} // namespace

int main()
{
    try
    {
        for (const Train& train : read(std::cin))
        {
            Line line(train);
            std::cout << "train\n";
            for (const int64_t arrival : line.run())
            {
                if (arrival == DROPPED)
                {
                    std::cout << "drop\n";
                }
                else
                {
                    std::cout << arrival << '\n';
                }
            }
            ns3::Simulator::Destroy();
        }
    }
    catch (const std::exception& error)
    {
        std::cerr << "peer-ns3: " << error.what() << '\n';
        return 1;
    }
    return 0;
}
